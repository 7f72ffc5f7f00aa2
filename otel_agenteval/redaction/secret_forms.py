"""The table of secrets that have a form of their own, or stand in a context that shows them, such as a URL or a
command.

A row is: the kind, words of which one must be in the text ("" for none), the pattern, whose group `value` is the
secret, and a check of the value. `kinds.rule` explains the rest. Every pattern takes linear time. If rules compete
for a place, the earlier one in the table wins.
"""

import re
from typing import Final

from otel_agenteval.redaction.kinds import WORD, DataKind, Rule, rule, start
from otel_agenteval.redaction.secret_names import is_random, is_value, looks_made
from otel_agenteval.redaction.text_names import NAMED, is_number

_QUERY_NAMES: Final = (
    r"x-(?:amz|goog|oss|cos|ms|obs)-(?:signature|credential|security-token)|(?:oss)?accesskeyid|awsaccesskeyid"
    r"|googleaccessid"
    r"|signature|sig|policy|appid|key-pair-id|hmac|hdne[at]|hdnts|key|code|auth|sid|state|ticket|apikey|sign|hash|t|st"
    r"|credential"
    r"|invite|otp|nonce|jwt|assertion|samlresponse|session(?:id|_id)?|oobcode"
)
_KEY_FORMS: Final = "|".join(
    (
        r"sk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and those that took their form
        r"[rs]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}",  # Stripe
        r"gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
        r"gl(?:pat|ptt|dt|rt|cbt|oas|soat|ft|ffct|agent|imt)-[A-Za-z0-9_.-]{16,}|GR1348941[A-Za-z0-9_-]{20}",  # GitLab
        r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16,}",  # AWS
        r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{10,}",  # Slack
        r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}|1//0[A-Za-z0-9_-]{30,}",  # Google
        r"(?:hf|gsk|xai|r8|pplx|nvapi|fw|tvly|lsv2|rpa|esecret|together|dapi|csk|jina)[_-][A-Za-z0-9_-]{20,}"
        r"|dapi[a-f0-9]{32}",
        r"npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|do[oprt]_v1_[a-f0-9]{32,}|rubygems_[a-f0-9]{40,}",
        r"SG\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+)?|key-[0-9a-f]{32}|[0-9a-f]{32}-us[0-9]{1,2}",  # mail
        r"(?:AC|SK)[0-9a-fA-F]{32}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}|sq0[a-z]{3}-[A-Za-z0-9_-]{22,}"
        r"|EAAA[A-Za-z0-9_-]{22,}",
        r"(?:AAAA[A-Za-z0-9_-]{7}:[A-Za-z0-9_-]{100,})|EAACEdEose0cBA[A-Za-z0-9]+|EAA[A-Za-z0-9]{60,}",
        r"hv[sbr]\.[A-Za-z0-9_-]{20,}|s\.[A-Za-z0-9]{24}|dp\.(?:st|pt|ct|sa|scim|audit)\.[A-Za-z0-9._-]{20,}",
        r"glsa_[A-Za-z0-9_]{30,}|glc_[A-Za-z0-9+/=]{30,}|eyJrIjoi[A-Za-z0-9+/=]{30,}|NR(?:AK|II|JS"
        r"|RA)-[A-Za-z0-9-]{20,}",
        r"sntry[su]_[A-Za-z0-9+/=_-]{30,}|lin_(?:api|oauth)_[A-Za-z0-9]{30,}|ntn_[A-Za-z0-9]{30,}"
        r"|secret_[A-Za-z0-9]{40,}",
        r"figd_[A-Za-z0-9_-]{30,}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|ATATT3[A-Za-z0-9_=-]{30,}|ATCTT3[A-Za-z0-9_=-]{30,}",
        r"PMAK-[a-f0-9-]{40,}|pul-[a-f0-9]{40}|pscale_(?:pw|tkn|oauth)_[A-Za-z0-9_.=-]{20,}|sb[ps]_[a-f0-9]{40}"
        r"|CFPAT-[A-Za-z0-9_-]{30,}",
        r"(?:EZAK|EZTK)[A-Za-z0-9]{40,}|ops_eyJ[A-Za-z0-9+/=]{40,}|A3-[A-Z0-9]{6}-[A-Z0-9-]{20,}"
        r"|AGE-SECRET-KEY-1[A-Z0-9]{50,}",
        r"[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,}|sl\.[A-Za-z0-9_-]{60,}|phx_[A-Za-z0-9]{30,}|HRKU-[A-Za-z0-9_-]{36,}",
        r"x(?:keysib|smtpsib)-[a-f0-9]{32,}[A-Za-z0-9-]*|LTAI[A-Za-z0-9]{12,}|AKID[A-Za-z0-9]{13,}",
        # Bedrock, Terraform Cloud, Tailscale, CircleCI, Fly.
        r"ABSK[A-Za-z0-9+/]{40,}={0,2}|bedrock-api-key-[A-Za-z0-9+/]{40,}={0,2}",
        r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}|tskey-[a-z]{3,10}-[A-Za-z0-9-]{16,}",
        r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{22}_[a-f0-9]{40}|fo1_[\w-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,}={0,3}",
        # Registries of packages and images: NuGet, crates.io, Clojars, Packagist, Docker, Artifactory.
        r"oy2[a-z0-9]{43}|cio[A-Za-z0-9]{32}|CLOJARS_[a-z0-9]{60}|packagist_[a-z]{3}_[a-f0-9]{68}",
        r"dckr_[op]at_[A-Za-z0-9_-]{27,}|cmVmd[A-Za-z0-9]{59}|AKCp[A-Za-z0-9]{69}",
        # Builds and code: Buildkite, Bitbucket, Sourcegraph, Sonar, Harness, Infracost.
        r"bkua_[a-z0-9]{40}|ATBB[A-Za-z0-9]{32,}|sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}",
        r"sq[apu]_[a-f0-9]{40}|[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}|ico-[A-Za-z0-9]{32}",
        # Hosts and databases: Dynatrace, Cloudflare, ClickHouse, Scaleway, Scalingo, SettleMint, Vercel, Netlify ...
        r"dt0[a-z][0-9]{2}\.(?i:[a-z0-9]{24}\.[a-z0-9]{64})|v1\.0-[a-f0-9]{24}-[a-f0-9]{146}",
        r"4b1d[A-Za-z0-9]{38}(?![A-Za-z0-9])|SCW[A-Z0-9]{17}(?![A-Za-z0-9])|tk-us-[\w-]{40,}|sm_[as]at_[A-Za-z0-9]{16}",
        r"vc[pkaoir]_[A-Za-z0-9]{24,}|nfp_[A-Za-z0-9]{36,}|rnd_[A-Za-z0-9]{28,}|sb_secret_[\w-]{20,}|napi_[a-z0-9]{40,}",
        # Logins and money: Authress, Adobe, 42, Flutterwave, Duffel, Shippo, Plaid, MaxMind.
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,}",
        r"p8e-[a-z0-9]{32}|s-s4t2(?:ud|af)-[0-9a-f]{64}|FLW(?:SEC|PUB)K(?:_TEST|_LIVE)?-[A-Za-z0-9]{12,}(?:-X)?",
        r"duffel_(?:test|live)_[\w=-]{43}|shippo_(?:test|live)_[a-fA-F0-9]{40}|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk",
        r"access-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        # What agents call: Pinecone, Firecrawl, Apify, E2B, Mem0, Voyage, Hugging Face, Resend, Typeform, Frame.io ...
        r"pcsk_[A-Za-z0-9_]{40,}|fc-[0-9a-f]{32}|apify_api_[A-Za-z0-9]{36}|e2b_[0-9a-f]{40}|m0-[A-Za-z0-9]{40}",
        r"pa-[\w-]{43}|api_org_[A-Za-z]{34}|re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}|tfp_[\w-]{40,}|fio-u-[\w=-]{64}",
        r"rdme_[a-z0-9]{60,}|aio_[A-Za-z0-9]{28}|dbt[cu]_[\w+/=-]{30,}|pn[ub]_[A-Za-z0-9]{36}|hca[ib]k_[a-z0-9]{50,}",
        r"wandb_v1_[\w-]{40,}|(?:sdk|mob)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        r"AQV[A-Za-z0-9_-]{35,}|y0_[A-Za-z0-9_-]{30,}|t1\.[A-Z0-9a-z_-]+[=]{0,2}\.[A-Z0-9a-z_-]{86}[=]{0,2}",
    )
)
_PEM: Final = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[A-Za-z0-9+/=\s\\>|#*:.,;\"'()@<_&-]){0,20000}+"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
)
_TOOLS: Final = (
    r"(?:mysql|mysqldump|mysqladmin|mariadb|sshpass|redis-cli|valkey-cli|ldap[a-z]{3,8}|smbclient|plink|psexec|7z|zip"
    r"|unzip|rar|az|"
    r"docker|podman|helm|mongo|mongosh|mongodump|psql|pg_dump|sqlcmd|bcp|kinit|gpg|openssl|ssh-keygen|htpasswd|svn"
    r"|nmcli|wget|"
    r"ftp|lftp|sftp|xfreerdp|rdesktop|evil-winrm|cassandra|cqlsh|influx|rabbitmqctl|login|logon|mosquitto_pub|mosquitto_sub"
    r"|snmpget|snmpwalk)"
)


def _path_of_token(path: str) -> bool:
    """Return whether a path holds a token: a part that no person would write."""
    segments = re.split(r"[/?=&]", path)
    coded = [
        segment
        for segment in segments
        if re.fullmatch(r"[A-Za-z0-9_.@-]{6,}", segment) and re.search(r"[0-9]", segment)
    ]
    return any(is_random(segment) or re.fullmatch(r"[0-9a-z]{7,}", segment) for segment in coded) or len(coded) > 1


def _is_mixed(value: str) -> bool:
    return all(re.search(characters, value) for characters in ("[a-z]", "[A-Z]", "[0-9]")) and not re.fullmatch(
        "[0-9a-fA-F]+", value
    )


def _is_key(value: str) -> bool:
    """Return whether a value behind `key_` and the like is a key: no word, and no digest of 32 or 40 digits."""
    return not re.fullmatch(r"[0-9a-f]{32}|[0-9a-f]{40}", value) and (is_random(value) or value.count("-") == 4)


def _is_password(value: str) -> bool:
    return looks_made(value) or (is_number(value) and len(value) < 10)


def _is_query_value(value: str) -> bool:
    return is_value(value) and (is_random(value.replace("%", ""), 10) or (len(value) >= 16 and looks_made(value)))


def _credential(value: str) -> bool:
    """Return whether a value is more than the next word of a sentence, as in "basic authentication"."""
    return is_value(value) and re.search(r"[0-9=+/]|.[A-Z]", value) is not None


RULES: Final[tuple[Rule, ...]] = (
    rule(DataKind.PRIVATE_KEY, "private", _PEM),
    rule(DataKind.PRIVATE_KEY, "private-lines:", r"Private-Lines: [0-9]+\s+(?P<value>[A-Za-z0-9+/=\s\\]{20,}+)"),
    rule(DataKind.JWT, "eyj",
        start(r"A-Za-z0-9_-") + r"eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.{1,2}[A-Za-z0-9_-]+){0,3}"),
    # Keys of chat bots: Telegram, then Discord.
    rule(DataKind.API_KEY, ":aa", r"(?<![0-9])[0-9]{8,12}:AA[A-Za-z0-9_-]{30,40}"),
    rule(DataKind.API_KEY, ".", start(r"\w-") + r"[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,45}"
        r"(?![\w-])", is_random, in_runs=True),
    rule(DataKind.API_KEY, "", rf"{WORD}(?:{_KEY_FORMS})", in_runs=True),
    # Forms with characters that no run has: OpenShift, Azure's applications, Facebook.
    rule(DataKind.API_KEY, "sha256~", WORD + r"sha256~[\w-]{43}(?![\w-])"),
    rule(DataKind.API_KEY, "q~",
        r"(?<![A-Za-z0-9_~.])[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.-])"),
    rule(DataKind.API_KEY, "| %7c", r"(?<![0-9])[0-9]{15,16}(?:\||%7[Cc])(?P<value>[\w-]{27,40})(?![\w-])", is_random),
    rule(DataKind.SECRET, "_session=", r"(?i:[a-z0-9]_session)=(?P<value>[0-9A-Za-z%_-]{20,})", is_random),
    rule(DataKind.JWT, "zxlk", WORD + r"ZXlK[A-Za-z0-9/+_-]{40,}={0,2}"),
    rule(DataKind.API_KEY,
        "sk_ sk- rk_ pat_ pat- key_ key- token_ token- secret_ secret- live_ live- oauth_ oauth- api_ api- bot_ "
        "bot- pw_ tok_ tkn_",
        WORD + r"(?:[A-Za-z0-9]{1,16}[_-]){0,2}(?i:sk|rk|pat|key|tok|tkn|token|secret|live|oauth|api|apikey|bot|pw)[_-]"
        r"(?:[a-z0-9]{1,8}[_-]){0,2}"
        r"(?P<value>[A-Za-z0-9]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![A-Za-z0-9])", _is_key,
        in_runs=True),
    # A short prefix, then a long random part. Ids of messages and calls look alike; they are shorter, or listed here.
    rule(DataKind.API_KEY, "_",
        WORD + r"(?!(?:call|toolu|msg|resp|fc|rs|ws|run|thread|asst|file|vs|step|batch|req|evt|item|gen|trace"
        r"|span)_)[a-z0-9]{2,8}_(?:[A-Za-z0-9]{1,8}_)?(?P<value>[A-Za-z0-9]{28,})(?![A-Za-z0-9])", _is_mixed,
        in_runs=True),
    rule(DataKind.SECRET, "aws akia asia", r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])", _is_mixed,
        in_runs=True),
    rule(DataKind.SECRET, "$",
        r"\$(?:2[abxy]|[1556y]|argon2(?:id?|d)|apr1|pbkdf2-sha[0-9]+|scrypt)\$[^\s:\"',;<>]{20,}"),
    rule(DataKind.SECRET, "",
        r"(?<![A-Za-z0-9])(?:5[HJK][1-9A-HJ-NP-Za-km-z]{49}|[KL][1-9A-HJ-NP-Za-km-z]{51})(?![A-Za-z0-9])", is_random,
        in_runs=True),
    # URLs: a password before the host, which may hold an @ itself; a token there; webhooks; signatures; reset links.
    rule(DataKind.SECRET, "://",
        r"[A-Za-z][A-Za-z0-9+.-]{1,20}+://[^\s/:@\"'<>?#]{0,128}:(?P<value>[^\s/\"'<>]{1,256})@(?=[\w.\[${*-])",
        is_value),
    rule(DataKind.SECRET, "://",
        r"[A-Za-z][A-Za-z0-9+.-]{1,20}+://[^\s/:@\"'<>?#]{0,128}:(?P<value>[^\s@\"'<>?#]{0,128}+[^\s@\"'<>]{0,128}+)@"
        r"(?=[\w.-][\w-]*+\.[\w.-]++(?:[:/?\s\"']|$)|localhost|[\w-]++:[0-9])",
        lambda value: is_value(value) and not re.match(r"[0-9]{2,5}/", value)),
    rule(DataKind.SECRET, "://", r"://(?P<value>[A-Za-z0-9_-]{16,})@", lambda value: is_random(value, 12)),
    # Oracle's `user/password@host`.
    rule(DataKind.SECRET, "thin: sqlplus expdp impdp", r"(?i:thin:|\b(?:sqlplus|expdp|impdp)\b[^\n]{0,80}? )"
        r"[\w$#.-]{1,64}/(?P<value>[^\s\"'@/][^\s\"'@]{0,128})(?=@)", is_value),
    rule(DataKind.SECRET, "hook",
        r"(?i:hook[\w-]{0,64}+(?:\.[\w.-]{1,255}+)?(?::[0-9]+)?|webhookb2)/(?P<value>[^\s\"'<>\\)\]]{8,})",
        _path_of_token),
    rule(DataKind.SECRET, "ifttt", r"ifttt\.com/trigger/[^\s/]+/(?:json/)?with/key/(?P<value>[\w-]{10,})"),
    rule(DataKind.SECRET,
        "reset verif confirm invit magic activat login unsubscribe share integration token key secret auth",
        r"(?i:/(?=[\w-]*(?:reset|verif|confirm|invit|magic|activat|login|unsubscribe|share|integration|token|key"
        r"|secret|auth))[\w-]++/)(?P<value>[\w.~%-]{16,})", is_random, sign=r"/[\w.~%-]{16}"),
    rule(DataKind.SECRET, "=", rf"(?i:[?&;#](?:amp;)?(?:{_QUERY_NAMES}))=(?P<value>[^\s&\"'<>\\#)\]}}]{{6,}})",
        _is_query_value),
    rule(DataKind.SECRET, "bearer basic",
        WORD + r"(?i:bearer|basic)(?:\s{1,4}|%20|\+)(?P<value>[A-Za-z0-9+/=._~-]{8,})",
        _credential),
    rule(DataKind.SECRET, "cookie",
        r"(?i:cookie2?)[\"'\\]{0,4}\s{0,3}[:=,]\s{0,3}[\"'\\]{0,4}(?P<value>[\w.%$-]{1,80}=[^\r\n\"'\\]{1,4000})"),
    rule(DataKind.SECRET, "-b --cookie",
        r"(?:\bcurl\b[^\n|;&]{0,200}? -b|(?<!\S)--cookie)[ =][\"']?(?P<value>[\w.%-]{1,80}=[^\r\n\"']{1,4000})"),
    rule(DataKind.SECRET, "cookies", r"(?i:cookies)[\"']?\s?[:=]\s?\{(?P<value>[^{}]{3,4000})\}"),
    # Command lines.
    rule(DataKind.SECRET, "-u -a -user --proxy-user --ftp-user --http-user",
        r"(?<![\w-])(?:-[uUa]|--(?:proxy-|ftp-|http-)?user)(?:[ =]|[\"'],\s?)?\\?[\"']?[^\s:\"'=]{1,64}[:%]"
        r"(?P<value>[^\s\"'\\]+)",
        lambda value: is_value(value) and not re.fullmatch(r"[0-9]{1,5}(?::[0-9]+)?|//.*", value)),
    # Short flags in one, as in `curl -sSu user:password`.
    rule(DataKind.SECRET, "curl",
        r"\bcurl\b[^\n|;&]{0,200}? -[A-Za-z]{1,6}u ?\\?[\"']?[^\s:\"'=]{1,64}:(?P<value>[^\s\"'\\]+)", is_value),
    # Environment variables, such as `MAILER_KEY=`.
    rule(DataKind.SECRET, "_key",
        r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_KEY[\"']?\s?[=:]\s?[\"']?(?P<value>[A-Za-z0-9_+/=-]{16,})",
        is_random),
    rule(DataKind.SECRET, "-p -a -w /p: --passphrase",
        rf"(?<![\w-]){_TOOLS}(?: [^\n|;&]{{0,200}}?)? (?:-p ?|-P ?|-a |-w ?|-pw |--passphrase |/p:)(?:\\?[\"'])?"
        rf"(?P<value>[^\s\"'\\-][^\s\"'\\]{{2,}})", looks_made),
    rule(DataKind.SECRET, "pass:", r"(?<![\w])pass:(?P<value>[^\s\"'\\]{3,})", looks_made),
    rule(DataKind.SECRET, "echo printf", r"(?:echo|printf)(?: -n)? [\"']?(?P<value>[^\s\"'|]{3,})[\"']? ?\| ?(?:sudo"
        r"|docker|podman|passwd|gpg|openssl|smbpasswd|chpasswd|faillock|base64|htpasswd)", is_value),
    # Commands that take a user, then a password.
    rule(DataKind.SECRET, "user passwd rabbitmqctl",
        r"(?:net user [^\s/]+|/user:\S{1,256}+|(?:htpasswd|mosquitto_passwd) -[A-Za-z]{0,4}b[A-Za-z]{0,4} \S+ \S+"
        r"|rabbitmqctl (?:add_user|change_password|authenticate_user) \S+)\s+[\"']?(?P<value>[^\s\"'*/]{3,})",
        looks_made),
    rule(DataKind.SECRET, "auth cred login",
        r"(?i:auth|credentials?|creds|login)\w{0,10}\s?[=:(]{1,2}\s?[(\[]{0,2}\\?[\"'][^\"'\n]{1,64}\\?[\"'], "
        r"?\\?[\"'](?P<value>[^\"'\n\\]{3,})", looks_made),
    # An account and its secret, as arguments: `Client("AC...", "...")`.
    rule(DataKind.SECRET, "client( session( api(",
        r"(?i:client|session|api)\(\s{0,20}\\?[\"'][^\"'\n]{4,64}\\?[\"'],\s{0,20}\\?[\"']"
        r"(?P<value>[A-Za-z0-9_+/=.-]{20,})(?=\\?[\"'])", lambda value: is_random(value.replace("-", " "))),
    rule(DataKind.SECRET, "login", r"(?i:login)\s+\S+\s+(?i:password)\s+(?P<value>\S+)", is_value),
    rule(DataKind.SECRET, ":5432: :*:", r":(?:5432|\*):[^\s:]+:[^\s:]+:(?P<value>[^\s\"'\\]{3,})"),
    rule(DataKind.SECRET, "identified", r"(?i:identified (?:by|with \w+ by)) \\?[\"'](?P<value>[^\"'\\\n]+)"),
    # A user and a password beside one another.
    rule(DataKind.SECRET, "cred log user",
        WORD + r"(?i:creds?|credentials?|log[ -]?(?:in|on)s?|basic auth|user(?:name)?s? ?[/:&,|] ?(?:pass(?:word)?|pwd"
        r"|pw))\b(?: details| info| with| as)?"
        r"(?i:(?: are| is)?[:=]?\s{0,3}| with | as )[\"'`(]?[\w.+-][\w.@+-]{1,39} ?[:/|,] ?(?P<value>[^\s\"'`<>,]{5,})",
        lambda value: looks_made(value, 5) and not value.startswith("//") and "=" not in value[:-2]),
    rule(DataKind.SECRET, "pass pin token secret api pw",
        r"(?i:\b(?:use|enter|type|try|with|is|set|got|it's|its|take|give|be))[: ]{1,2}[\"'`]?"
        r"(?P<value>[^\s\"'`,]{5,64})[\"'`]? (?i:as|for|is)(?: (?i:the|my|your|a|our|his|her))?(?: [a-z]{2,10}){0,2}"
        r" (?i:password|passcode|passphrase|pin|token|secret|api[ -]?key|pw)\b", _is_password,
        sign=r" (?i:as|for|is) "),
    # The third argument, as in `connect("host", "user", "password")`.
    rule(DataKind.SECRET, "connect( connection( pdo( mysqli(",
        r"(?i:connect|connection|pdo|mysqli)\((?:\s{0,20}(?:[\w.:$]{1,60}|\\?[\"'][^\"'\n\\]{0,200}\\?[\"']),){2}"
        r"\s{0,20}\\?[\"'](?P<value>[^\"'\n\\]{6,})(?=\\?[\"'])", looks_made),
    # Text that is typed into a field, as in `get_by_label("Password").fill("x")`.
    rule(DataKind.SECRET, ").",
        r"(?i:pass(?:word|wd|phrase|code)?|passwort|contraseña|senha|pwd|token|secret|pin|otp|api[ _-]?key)"
        r"[\w '*:\]\\-]{0,30}[\"']\]?\)(?:\.(?:first|last|nth\([0-9]\)))?"
        r"\.(?i:fill|type|send_?keys|press_?sequentially|set_?value|enter)\(\s?\\?[\"'](?P<value>[^\"'\n\\]{3,})",
        is_value),
    # Cookie files: seven columns, the value last.
    rule(DataKind.SECRET, "", r"\t(?:TRUE|FALSE)\t/\S*\t(?:TRUE|FALSE)\t[0-9]{1,14}\t[^\s=]+\t(?P<value>\S+)",
        sign=r"\t(?:TRUE|FALSE)\t"),
    # Secrets that are told in parts, as in "the second half of the key is ...".
    rule(DataKind.SECRET, "part half rest",
        r"(?i:\b(?:part|half|the rest)\b(?: (?:[0-9]|one|two|three))?(?: (?:of|for) (?:[a-z]{1,10} ){0,3}"
        r"(?:key|token|password|passphrase|secret|pin|it))?(?: is)?)\s?[:=]?\s{1,3}"
        r"[\"'`]?(?P<value>[A-Za-z0-9_+/=.!@#$%-]{6,})", lambda value: is_random(value, 14),
        sign=r"[A-Za-z0-9_+/=-]{14}"),
    # "My Acme key is ...": a key without a further name, of somebody. Not those of tables, caches and requests.
    rule(DataKind.API_KEY, "key",
        WORD + r"(?i:my|our|your|his|her|their|the|its|a|this)"
        r"(?: (?!(?i:primary|foreign|partition|sort|cache|idempotency|object|public|row|map|dict|issue|index|lookup"
        r"|hash|dedup\w*|routing|message|record|storage|composite|unique|shard|session|trace|document|state|redis|s3)\b)"
        r"[\w.-]{1,30}){0,3} (?i:keys?)(?i: is| was|:| =){1,2}(?: now)? "
        r"[\"'`]?(?P<value>[A-Za-z0-9_+/=~.:-]{12,512})",
        lambda value: is_random(value, 14) or looks_made(value, 20) or value.count("-") == 4,
        sign=r"(?i:keys?)(?i: is| was|:| =)"),
    NAMED,
    rule(DataKind.SECRET, "phrase mnemonic words wallet",
        r"(?i:phrase|mnemonic|words|wallet)[^\n]{0,40}?(?:[:=\n\"']| is)\s{0,4}[\"'`]?(?P<value>(?:"
        r"(?:[0-9]{1,2}[.)]\s?)?[a-z]{3,8}[ ,\n]{1,2}){11,23}(?:[0-9]{1,2}[.)]\s?)?[a-z]{3,8})(?![a-z])"),
)  # fmt: skip
