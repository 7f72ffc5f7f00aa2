"""The table of national ids: numbers of persons for taxes, health, social insurance and identity.

A number with a form of its own is found wherever it stands, if its check digits hold. Bare digits could be an order
number, so they are found only behind the name of the id. Forms and check digits are those that the issuing offices
publish.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from otel_agenteval.redaction.kinds import WORD, DataKind, Rule

_END: Final = r"(?![A-Za-z0-9])(?![.,-][0-9])"
_ALONE: Final = r"(?<![\w.-])"


def _digits(text: str) -> list[int]:
    return [int(character) for character in text if character.isdecimal()]


def _sum(digits: Sequence[int], weights: Sequence[int]) -> int:
    return sum(digit * weight for digit, weight in zip(digits, weights, strict=False))


def _spanish(text: str) -> bool:
    number = text[:-1].rstrip("-").replace("X", "0").replace("Y", "1").replace("Z", "2")
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == text[-1]


def _brazilian(text: str) -> bool:
    digits = _digits(text)
    checks = [_sum(digits, range(length + 1, 1, -1)) * 10 % 11 % 10 for length in (9, 10)]
    return digits[9:] == checks and len(set(digits)) > 1


def _french(text: str) -> bool:
    compact = text.replace(" ", "").replace("2A", "19").replace("2B", "18")
    return int(compact[:13]) % 97 == 97 - int(compact[13:])


def luhn(text: str) -> bool:
    """Return whether the checksum of ISO/IEC 7812-1 holds."""
    digits = _digits(text)[::-1]
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[1::2]]
    return (sum(digits[0::2]) + sum(doubled)) % 10 == 0


def _swedish(text: str) -> bool:
    digits = _digits(text)[-10:]
    return _is_day(digits[2:4], digits[4:6], 60) and luhn("".join(map(str, digits)))


def _finnish(text: str) -> bool:
    return "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(text[:6] + text[7:10]) % 31] == text[-1]


def _swiss(text: str) -> bool:
    digits = _digits(text)
    return _sum(digits, (1, 3) * 7) % 10 == 0


def _belgian(text: str) -> bool:
    digits = "".join(map(str, _digits(text)))
    return int(digits[9:]) in (97 - int(digits[:9]) % 97, 97 - int("2" + digits[:9]) % 97)


def _czech(text: str) -> bool:
    digits = _digits(text)
    number = int("".join(map(str, digits)))
    month = (digits[2] * 10 + digits[3]) % 50 % 20
    return 1 <= month <= 12 and (len(digits) == 9 or number % 11 == 0 or (number // 10 % 11 == 10 and digits[-1] == 0))


def _is_day(month: Sequence[int], day: Sequence[int], added: int = 0) -> bool:
    number = day[0] * 10 + day[1]
    return 1 <= month[0] * 10 + month[1] <= 12 and (1 <= number <= 31 or added < number <= added + 31)


def _dated(text: str) -> bool:
    """Return whether a number begins with a date of birth: year, month, day."""
    digits = _digits(text)
    return _is_day(digits[2:4], digits[4:6])


_TIMES: Final = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_TURNS: Final = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip


def _verhoeff(text: str) -> bool:
    check = 0
    for position, digit in enumerate(reversed(_digits(text))):
        check = int(_TIMES[check][int(_TURNS[position % 8][digit])])
    return check == 0


def _chinese(text: str) -> bool:
    weights = [2**power % 11 for power in range(17, 0, -1)]
    return "10X98765432"[_sum(_digits(text[:17]), weights) % 11] == text[-1].upper()


def _singaporean(text: str) -> bool:
    rest = (_sum(_digits(text), (2, 7, 6, 5, 4, 3, 2)) + {"T": 4, "G": 4, "M": 3}.get(text[0], 0)) % 11
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "M": "KLJNPQRTUWX"}.get(text[0], "XWUTRQPNMLK")
    return letters[10 - rest if text[0] == "M" else rest] == text[-1]


def _thai(text: str) -> bool:
    digits = _digits(text)
    return (11 - _sum(digits, range(13, 1, -1)) % 11) % 10 == digits[12]


def _taiwanese(text: str) -> bool:
    first = "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(text[0]) + 10
    return (first // 10 + first % 10 * 9 + _sum(_digits(text), (8, 7, 6, 5, 4, 3, 2, 1, 1))) % 10 == 0


def _argentinian(text: str) -> bool:
    digits = _digits(text)
    return (11 - _sum(digits[:10], (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11 == digits[10]


def _chilean(text: str) -> bool:
    digits = _digits(text[:-1])[::-1]
    return "0123456789K0"[11 - _sum(digits, (2, 3, 4, 5, 6, 7, 2, 3)) % 11] == text[-1].upper()


def _russian(text: str) -> bool:
    digits = _digits(text)
    return _sum(digits[:9], range(9, 0, -1)) % 101 % 100 == digits[9] * 10 + digits[10]


_FORMS: Final[tuple[tuple[str, tuple[tuple[str, Callable[[str], bool] | None], ...]], ...]] = (
    (r"[0-9]{6}", (
        (r"[0-9XYZ][0-9]{7}-?[A-HJ-NP-TV-Z]", _spanish),  # Spain: DNI, NIE
        (r"[A-Z][AEIOUX][A-Z]{2}[0-9]{6}[HMX][A-Z]{2}[B-DF-HJ-NP-TV-Z]{3}[0-9A-Z][0-9]", None),  # Mexico: CURP
        (r"(?:19|20)?[0-9]{6}[-+][0-9]{4}", _swedish),  # Sweden: personnummer
        (r"[0-9]{6}[-+A-FU-Y][0-9]{3}[0-9A-FHJ-NPR-Y]", _finnish),  # Finland: HETU
        (r"[0-9]{6}/[0-9]{3,4}", _czech),  # Czechia, Slovakia: birth number
        (r"[0-9]{6}-[1-8][0-9]{6}", _dated),  # Korea: resident registration number
        (r"[1-9][0-9]{5}(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:[0-2][0-9]|3[01])[0-9]{3}[0-9Xx]", _chinese),
        (r"[A-Z]{1,2}[0-9]{6}\([0-9A]\)", None),  # Hong Kong: HKID
        (r"[STFGM][0-9]{7}[A-Z]", _singaporean),  # Singapore: NRIC, FIN
        (r"[0-9]{6}-[0-9]{2}-[0-9]{4}", _dated),  # Malaysia: MyKad
        (r"784-[0-9]{4}-[0-9]{7}-[0-9]", luhn),  # United Arab Emirates: Emirates ID
        (r"[A-Z][1289][0-9]{8}", _taiwanese),  # Taiwan
        (r"(?:2[0347]|3[034])-[0-9]{8}-[0-9]", _argentinian),  # Argentina: CUIT, CUIL
        (r"[0-9]{2} [0-9]{6} [A-Z] [0-9]{3}", None),  # Germany: social insurance
    )),
    (r"[0-9]\.[0-9]{2,4}[.-][0-9]", (
        (r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", _brazilian),  # Brazil: CPF
        (r"756\.[0-9]{4}\.[0-9]{4}\.[0-9]{2}", _swiss),  # Switzerland: AHV
        (r"[0-9]{2}\.[0-9]{2}\.[0-9]{2}-[0-9]{3}\.[0-9]{2}", _belgian),  # Belgium: national number
        (r"[0-9]{1,2}\.[0-9]{3}\.[0-9]{3}-[0-9kK]", _chilean),  # Chile: RUT
    )),
    (r"[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{2}", (
        (r"[12] ?[0-9]{2} ?(?:0[1-9]|1[0-2]|[2-9][0-9]) ?[0-9][0-9AB] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}", _french),  # NIR
        (r"[0-9]{3}-[0-9]{3}-[0-9]{3} [0-9]{2}", _russian),  # Russia: SNILS
        (r"[0-9]-[0-9]{4}-[0-9]{5}-[0-9]{2}-[0-9]", _thai),  # Thailand
    )),
    (r"[0-9]{4}[ -][0-9]{4}[ -][0-9]{4}", (
        (r"[2-9][0-9]{3}([ -])[0-9]{4}\1[0-9]{4}", _verhoeff),  # India: Aadhaar
    )),
    (r"[A-Z]{5}[0-9A-Z]", (
        (r"[A-Z]{6}[0-9L-NP-V]{2}[A-EHLMPR-T][0-9L-NP-V]{2}[A-Z][0-9L-NP-V]{3}[A-Z]", None),  # Italy: codice fiscale
        (r"[A-Z]{3}[ABCFGHJLPT][A-Z][0-9]{4}[A-Z]", None),  # India: PAN
    )),
    (r"[A-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]", (
        (r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?[0-9]{2}){3} ?[A-D]", None),  # United Kingdom: NINO
    )),
    (r"[0-9]-[A-Z][A-Z0-9][0-9]-[A-Z]", (
        (r"[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-[AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-"
         r"[AC-HJKMNP-RT-Y]{2}[0-9]{2}", None),  # United States: Medicare
    )),
)  # fmt: skip
"""By what every id of a group holds, and few texts: the form of an id, and whether its check digits hold; None if the
form alone is enough."""

_NAMES: Final = (
    # Abbreviations count in capitals only: many are words as well.
    r"DNI|NIE|NIF|CPF|CURP|RFC|NIR|BSN|PESEL|CPR|HETU|AHV|AVS|TFN|NHS|PAN|HKID|NRIC|NIK|KTP|TCKN|NIN|CUI[TL]|RUT|RUN"
    r"|NISS|INSZ|PNF|ЛНЧ|NIT|NUIP|RNC|RUC|VKN|PTIN|ATIN|NIPT|PEID|РНОКПП|RNTRC|IIN|ИИН|IDNP|EMBG|ЕМБГ|EMŠO|EMSO|CNIC"
    r"|CNIE|NID|NPWP|NIP|RIF|IRD|NHI|RRN|NINO|TIN|UNP|УНП|PPSN|CCC|NNI|CPJ"
    r"|CNP|EGN|ЕГН|OIB|JMBG|AMKA|ΑΜΚΑ|AFM|ΑΦΜ|PPSN?|ITIN|EIN|SVNR|IMSS|NSS|SNILS|СНИЛС|ИНН|INN|TC|T\.C\.|SIN|BVN|CCCD"
    r"|CMND|(?i:codice fiscale|burgerservicenummer|personnummer|f[øo]dselsnummer|henkil[öo]tunnus|kennitala|isikukood"
    r"|asmens kodas|personas kods|rodn[eé] [cč][ií]slo|szem[ée]lyi sz[áa]m|rijksregisternummer|num[ée]ro national"
    r"|s[ée]curit[ée] sociale|social insurance|(?:national|personal|citizen|civil"
    r"|resident|individual|tax(?:payer)?|fiscal|health|unique)(?: (?:master|identification|identity|identifier"
    r"|registration|reference|insurance|citizen|id))* (?:number|code|card)"
    r"|sozialversicherung|steuernummer|steueridentifikation|tax file|medicare"
    r"|health card|kimlik|teudat zehut|emirates id|iqama|c[ée]dula|identity (?:card|number)|id card|my ?number|mykad"
    r"|aadhaar|documento de identidad|carte d'identit[ée]|carta d'identit[àa]|cart[ãa]o de cidad[ãa]o"
    r"|dow[óo]d osobisty|f[üu]hrerschein|permis de conduire|patente|carnet de conducir|rijbewijs|voter id"
    r"|bank verification|マイナンバー|個人番号|주민등록|身份证|身分證|身份證|ת\.?ז|الهوية|บัตรประชาชน|снилс"
    r"|удостоверение|паспорт)"
)
_BEFORE: Final = re.compile(
    WORD + rf"(?:{_NAMES})(?i:[ _-]?(?:id|number|nummer|no\.?|nr\.?|num(?:[ée]ro)?|n[°ºo]|#|号码?|番号|번호|№))?"
    r"[\"'\\]{0,4}(?i: (?:is|es|est|ist|è|é|jest|är|er|on))?[ :：#=|]{1,4}[\"'\\]{0,4}(?:[A-Za-z]{1,4}[ .-]?)?\Z"
)
_NUMBER: Final = re.compile(r"(?<![0-9])[0-9](?:[ ./-]?[0-9]){5,17}(?:[ ./-]?[0-9A-Za-z]){0,6}(?![A-Za-z0-9])")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LONGEST_NAME: Final = 60


def _named_ids(text: str) -> Iterator[tuple[int, int]]:
    """Find numbers behind the name of an id. Numbers are looked for first, because they are rarer."""
    for number in _NUMBER.finditer(text):
        if _DATE.match(number[0]):
            continue
        if _BEFORE.search(text[max(0, number.start() - _LONGEST_NAME) : number.start()]):
            yield number.span()


def _of_forms(forms: Sequence[tuple[str, Callable[[str], bool] | None]]) -> Callable[[str], Iterator[tuple[int, int]]]:
    compiled = [(re.compile(f"{_ALONE}{form}{_END}"), valid) for form, valid in forms]

    def search(text: str) -> Iterator[tuple[int, int]]:
        for form, valid in compiled:
            for match in form.finditer(text):
                if valid is None or valid(match[0]):
                    yield match.span()

    return search


NATIONAL_IDS: Final[tuple[Rule, ...]] = (
    *(Rule(DataKind.ID_NUMBER, (), _of_forms(forms), re.compile(sign)) for sign, forms in _FORMS),
    Rule(DataKind.ID_NUMBER, (), _named_ids, re.compile(r"[0-9](?:[ ./-]?[0-9]){5}")),
)
