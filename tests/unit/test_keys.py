"""Keys of callers: their settings, their digests, and files that change."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.config.sources import ConfigError, load
from agenteval_collector.model.callers import ANONYMOUS, Caller, Scope
from agenteval_collector.serve.doors.keys import KeyRing
from typer.testing import CliRunner

from tests.support.clock import ManualClock
from tests.support.keys import ring_of

DIGEST = hashlib.sha256(b"secret").hexdigest()


def server(**given: Any) -> Any:
    return load(environ={}, flags={"server": given}).server


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_without_keys_everybody_may_do_everything() -> None:
    ring = KeyRing()
    assert ring.is_open
    assert ring.by_key(b"") == ring.by_key(b"any") == ring.by_certificate("any") == ANONYMOUS
    assert all(ANONYMOUS.may(scope) for scope in Scope)


def test_a_plain_text_is_a_key_with_all_scopes_of_which_only_the_digest_is_kept() -> None:
    [first, second] = server(keys=["secret", "other"]).keys
    assert (first.name, second.name, first.sha256.get_secret_value()) == ("key-1", "key-2", DIGEST)
    caller = KeyRing([first, second]).by_key(b"other")
    assert caller == Caller("key-2", "default", frozenset(Scope))


@pytest.mark.parametrize("way", [{"key": "secret"}, {"sha256": DIGEST}], ids=["the key", "its digest"])
def test_an_entry_says_what_its_key_may_do(way: dict[str, str]) -> None:
    ring = KeyRing(server(keys=[{"name": "shop", "scopes": ["write"], "tenant": "acme", **way}]).keys)
    caller = ring.by_key(b"secret")
    assert caller == Caller("shop", "acme", frozenset({Scope.WRITE}))
    assert caller.may(Scope.WRITE)
    assert caller.may(Scope.READ, Scope.WRITE)
    assert not caller.may(Scope.READ)
    assert [ring.by_key(given) for given in (b"", b"Secret", b"secret ", DIGEST.encode(), b"\xff")] == [None] * 5


def test_who_may_administer_may_do_everything() -> None:
    caller = ring_of({"name": "root", "key": "secret", "scopes": ["admin"]}).by_key(b"secret")
    assert caller is not None
    assert all(caller.may(scope) for scope in Scope)


def test_a_certificate_stands_for_a_caller_by_its_common_name() -> None:
    ring = ring_of({"name": "shop", "certificate": "shop.example", "scopes": ["write"]})
    assert ring.by_certificate("shop.example") == Caller("shop", "default", frozenset({Scope.WRITE}))
    assert ring.by_certificate("other.example") is None
    assert ring.by_key(b"shop.example") is None


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        pytest.param([""], r"server\.keys\.0: the key is empty", id="empty"),
        pytest.param(["good", " "], r"server\.keys\.1: the key is empty", id="blank"),
        pytest.param([12345], r"server\.keys\.0: a key is a text, not int", id="a number"),
        pytest.param([{"name": "a"}], r"server\.keys\.0: give one of key, sha256 and certificate", id="nothing"),
        pytest.param([{"name": "a", "key": "k", "sha256": DIGEST}], "give one of key", id="two ways"),
        pytest.param([{"key": "k"}], r"server\.keys\.0\.name", id="no name"),
        pytest.param([{"name": "a", "sha256": "abc"}], "64 lower-case hex digits", id="no digest"),
        pytest.param([{"name": "a", "key": "k", "scopes": ["all"]}], r"server\.keys\.0\.scopes", id="no such scope"),
        pytest.param([{"name": "a", "key": "k", "scopes": []}], r"server\.keys\.0\.scopes", id="no scope"),
        pytest.param([{"name": "a", "key": "k", "tenant": "../x"}], r"server\.keys\.0\.tenant", id="a path"),
        pytest.param(
            [{"name": "a", "key": "k"}, {"name": "a", "key": "l"}], "two entries have the name 'a'", id="twice"
        ),
        pytest.param("secret", r"server\.keys: ", id="no list"),
        pytest.param([{"name": "a", "sha256": digest("")}], "sha256 is that of nothing", id="the digest of nothing"),
        pytest.param([{"name": "a", "sha256": digest("\n")}], "sha256 is that of nothing", id="of a line break"),
        pytest.param([{"name": "a", "sha256": digest("ab\n")}], "sha256 is that of nothing", id="of two characters"),
        *(
            pytest.param([variable], r"server\.keys\.0: .* is a variable that was not filled in", id=variable)
            for variable in ("$AGENTEVAL_KEY", "${KEY}", "{{ .Values.key }}", "%KEY%", "<your key>")
        ),
        pytest.param(
            [{"name": "a", "key": "one", "tenant": "x"}, {"name": "b", "key": "one", "tenant": "y"}],
            "'a' and 'b' have the same key",
            id="one key in two tenants",
        ),
        pytest.param(
            [{"name": "a", "certificate": "c"}, {"name": "b", "certificate": "c"}],
            "same certificate",
            id="a certificate twice",
        ),
    ],
)
def test_keys_that_cannot_be_used_are_named_and_never_shown(keys: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        server(keys=keys)
    assert "secret" not in str(refused.value)


def test_a_file_of_keys_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, clock = tmp_path / "keys.yaml", ManualClock()

    def write(keys: object) -> None:
        file.write_text(keys if isinstance(keys, str) else yaml.safe_dump(keys))
        clock.advance(2)

    write(["first"])
    ring = KeyRing(server(keys=["given"]).keys, file, clock)
    assert [ring.by_key(each) is not None for each in (b"given", b"first", b"second")] == [True, True, False]
    write([{"name": "new", "key": "second", "scopes": ["read"]}])
    assert [ring.by_key(each) is not None for each in (b"given", b"first", b"second")] == [True, False, True]
    write("[: no YAML")
    assert ring.by_key(b"second") == Caller("new", "default", frozenset({Scope.READ}))
    file.unlink()
    clock.advance(2)
    assert ring.by_key(b"second") is not None
    assert [each.levelname for each in caplog.records].count("ERROR") == 2
    assert str(file) in caplog.text
    write([])
    assert [ring.by_key(each) is not None for each in (b"given", b"second")] == [True, False]


@pytest.mark.parametrize("content", [None, "a: 1", "['']", "[{name: key-1, key: x}]"])
def test_a_file_of_keys_must_hold_at_start(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "keys.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=str(file)):
        KeyRing(server(keys=["given"]).keys, file)


def test_an_empty_file_of_keys_lets_nobody_in(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text("[]")
    ring = KeyRing((), file)
    assert not ring.is_open
    assert ring.by_key(b"") is None


def test_a_key_is_made_and_shown_once_and_its_entry_lets_it_in() -> None:
    made = CliRunner().invoke(command_line(["key"]), ["key", "shop", "--scope", "write", "--tenant", "acme"])
    comment, _, entry = made.output.partition("\n")
    key = comment.rpartition(" ")[2]
    assert len(key) >= 43
    assert key not in entry
    ring = KeyRing(server(keys=yaml.safe_load(entry)).keys)
    assert ring.by_key(key.encode()) == Caller("shop", "acme", frozenset({Scope.WRITE}))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["two words", "--scope", "read"], "agenteval: name: "),
        (["shop", "--scope", "read", "--tenant", "../x"], "agenteval: tenant: "),
    ],
)
def test_a_key_that_could_not_be_used_is_not_made(arguments: list[str], says: str) -> None:
    refused = CliRunner().invoke(command_line(["key"]), ["key", *arguments])
    assert refused.exit_code == 1
    assert refused.output.startswith(says)
    assert "Traceback" not in refused.output
