"""The table of common personal data.

It finds:

- e-mail addresses, and public IP addresses;
- phone numbers: in international form, as usual in North America and much of Europe, or after a word such as "phone";
- payment cards and IBANs, by their checksums;
- US social security numbers;
- numbers of passports and other documents, after the document's name, and national ids (`national_ids`).

It does not find names, postal addresses and dates of birth, nor bare digits: these are mostly order numbers.
"""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Final

from otel_agenteval.redaction.kinds import WORD, DataKind, Rule, rule, start
from otel_agenteval.redaction.national_ids import NATIONAL_IDS, luhn


def _digits(text: str) -> str:
    return "".join(filter(str.isdecimal, text))


def _iban(text: str) -> bool:
    """Return whether the checksum of ISO 13616, modulo 97, holds."""
    compact = text.replace(" ", "")
    return int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4])) % 97 == 1


def is_document_number(text: str) -> bool:
    """Return whether a passport or another document can have this number. It has five digits or more, or it is a word
    of capital letters and digits with at least two digits."""
    digits = sum(map(str.isdecimal, text))
    return digits >= 5 or (digits >= 2 and re.fullmatch("[A-Z0-9]{6,12}", text) is not None)


def _phone(text: str) -> bool:
    return 9 <= len(_digits(text)) <= 16


_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")


def _is_public(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return address.is_global if isinstance(address, IPv4Address) else address in _GLOBAL_UNICAST


_PHONE_NAME: Final = re.compile(
    WORD + r"(?i:(?:tele)?phone|tel|mobile|cell|whatsapp|fax|telefon[oe]?|handy|mob|celular|m[oó]vil|teléfono|téléphone"
    r"|portable|cellulare|telefoon|телефон|тел|電話|电话|手机|携帯|(?:call|reach|text) (?:me|us) (?:at|on))"
    r"""(?i: ?(?:number|no|nr|n[°º]|番号|号码?))?[ "'\\:：.#=|]{1,6}(?i:(?:is|es|est|ist|é|è) )?\Z"""
)
_PHONE_WORDS: Final = (
    "phone", "tel", "mob", "cel", "whatsapp", "fax", "handy", "vil", "portable", "тел", "話", "话", "机", "携",
    "call", "reach", "text",
)  # fmt: skip
"""Every match of `_PHONE_NAME` holds one of these, and they are found faster."""
_PHONE_NUMBER: Final = re.compile(r"(?<![0-9])\+?\(?[0-9](?:[ ()./-]{0,2}[0-9]){6,14}(?![0-9])")
_VERSION: Final = re.compile(r"[0-9]\.[0-9]\.")
_PHONE_SIGN: Final = re.compile(r"[0-9](?:[ ()./-]{0,2}[0-9]){6}")


def _named_phones(text: str) -> Iterator[tuple[int, int]]:
    """Find numbers with a word such as "phone" before them. Numbers are looked for first, because they are rarer."""
    lowered = text.lower()
    if not any(map(lowered.__contains__, _PHONE_WORDS)):
        return
    for number in _PHONE_NUMBER.finditer(text):
        before = text[max(0, number.start() - 40) : number.start()]
        if not any(map(before.lower().__contains__, _PHONE_WORDS)) or _VERSION.match(number[0]):
            continue
        if _PHONE_NAME.search(before):
            yield number.span()


PERSONAL_RULES: Final[tuple[Rule, ...]] = (
    rule(DataKind.EMAIL, "@",
        start(r"\w.%+'-") + r"[\w.%+'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.(?![0-9_-])[\w-]{2,63}"),
    rule(DataKind.EMAIL, "at) at]", r"(?<![\w.-])[\w.+-]{1,64}(?: ?[(\[](?i:dot)[)\]] ?[\w-]{1,63}){0,3}"
        r" ?[(\[](?i:at)[)\]] ?[\w-]{1,63}(?: ?(?:[(\[](?i:dot)[)\]]|\.) ?[\w-]{2,63}){1,4}(?![\w-])"),
    rule(DataKind.EMAIL, " dot ",
        WORD + r"[\w.+-]{2,64} at [\w-]{2,63} dot (?:com|org|net|edu|gov|io|co|ai|dev|app|de|fr|es|it|nl|uk|eu|ch"
        r"|at|in|jp)\b"),
    rule(DataKind.IBAN, "", WORD + r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])", _iban,
        sign=r"[A-Z]{2}[0-9]{2} ?[A-Z0-9]{4} ?[A-Z0-9]{4}"),
    rule(DataKind.CARD, "", r"(?<![\w.-])(?:(?:4[0-9]|5[1-5]|2[2-7]|6[0-9]|35)[0-9]{2}"
        r"([ -]?)[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
        r"|3[47][0-9]{2}([ -]?)[0-9]{6}\2[0-9]{5}|3[068][0-9]{2}([ -]?)[0-9]{6}\3[0-9]{4})(?![\w-])", luhn,
        sign=r"[0-9]{4}[ -]?[0-9]{4}"),
    rule(DataKind.SSN, "",
        r"(?<![\w-])(?:(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}|9[0-9]{2}-[5-9][0-9])-(?!0000)[0-9]{4}(?![\w-])",
        sign=r"[0-9]-[0-9]{2}-[0-9]{4}"),
    rule(DataKind.SSN, "ssn social",
        WORD + r"(?i:ssn|(?:my|your|his|her|their) social|social security(?: number| no\.?| nr\.?)?)"
        r"[\"'\\]{0,4}(?: is)?[ :#=]{1,4}[\"'\\]{0,4}(?P<value>[0-9]{3}[ -]?[0-9]{2}[ -]?[0-9]{4})(?![0-9])"),
    rule(DataKind.ID_NUMBER,
        "passp pasap passe passa reisep паспорт 护照 護照 パスポート licen national tax steuer nino aadhaar ausweis",
        WORD + r"(?i:passport|pasaporte|passeport|passaporto|reisepass|паспорт|护照|護照|パスポート"
        r"|driv(?:er'?s|ing) licen[cs]e|national (?:id|insurance)|tax(?:payer)? id|steuer-?id|nino|aadhaar"
        r"|(?:personal)?ausweis)(?i:[ _-]?(?:number|nummer|no\.?|nr\.?|num|n[°ºo]|#|号码?|番号|№))?[\"'\\]{0,4}"
        r"(?i: (?:is|es|est|ist|è|é|lautet))?[ :：#=|]{1,4}[\"'\\]{0,4}"
        r"(?P<value>[A-Z0-9](?:[ -]?[A-Z0-9]){5,15})(?![A-Za-z0-9])", is_document_number, sign=r"[0-9]"),
    rule(DataKind.PHONE, "", r"(?<![\w+])\+[1-9](?:[ .()/-]{0,3}[0-9]){7,14}(?![0-9])", _phone, sign=r"\+[1-9]"),
    rule(DataKind.PHONE, "", r"(?<![\w.-])00[1-9][0-9]{0,2}(?:[ .()/-]{1,2}[0-9]{1,8}){2,5}(?![0-9])", _phone,
        sign=r"00[1-9][0-9]{0,2}[ .()/-]"),
    rule(DataKind.PHONE, "", r"(?<![\w.-])(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?[0-9]{3}[ .-][0-9]{4}"
        r"|[2-9][0-9]{2}([.-])[0-9]{3}\1[0-9]{4})(?![\w-])", sign=r"[2-9][0-9]{2}[.)-] ?[0-9]{3}[ .-][0-9]{4}"),
    rule(DataKind.PHONE, "", r"(?<![\w.,:/+-])(?:0[1-9](?:[ .][0-9]{2}){4}"
        r"|0[1-9][0-9]{1,3}[ /-](?:[0-9]{3,8}(?: [0-9]{3,4})?|[0-9]{2}(?: [0-9]{2}){2,4}))(?![\w,:/.-]?[0-9])", _phone,
        sign=r"0(?<![\w.,:/+-]0)[1-9](?:[ .][0-9]{2}[ .]|[0-9]{1,3}[ /-][0-9]{2})"),
    Rule(DataKind.PHONE, (), _named_phones, _PHONE_SIGN),
    rule(DataKind.IP, "", r"(?<![\w.-])(?<!ersion )[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w-]|\.[0-9])", _is_public,
        sign=r"\.[0-9]{1,3}\.[0-9]"),
    rule(DataKind.IP, "", r"(?<![\w:.])[23][0-9A-Fa-f]{0,3}:[0-9A-Fa-f:]{2,34}(?![\w:])", _is_public,
        sign=r"[23][0-9A-Fa-f]{0,3}:[0-9A-Fa-f:]{2}"),
    *NATIONAL_IDS,
)  # fmt: skip
