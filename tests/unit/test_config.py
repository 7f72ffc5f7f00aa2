from pathlib import Path

import pytest
from agenteval_collector.config.evaluators import EvaluatorsConfig
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError, load


def test_no_source_gives_the_defaults() -> None:
    assert load(environ={}) == Settings()


def test_flags_outrank_environment_and_environment_outranks_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("assembly: {settle: 1, max_age: 100}\nsession: {idle: 15 min}\n")
    environ = {"AGENTEVAL_ASSEMBLY__SETTLE": "500ms", "AGENTEVAL_ASSEMBLY__MAX_AGE": "200"}
    settings = load(file, environ, {"assembly": {"max_age": 300}})
    assert (settings.assembly.settle, settings.assembly.max_age, settings.session.idle) == (0.5, 300, 900)


@pytest.mark.parametrize(
    ("yaml", "environ", "message"),
    [
        pytest.param("assembly: {quiet: 1}", {}, r"unknown key 'assembly\.quiet'", id="a key misspelt in the file"),
        pytest.param(
            "",
            {"AGENTEVAL_ASEMBLY__X": "1"},
            "environment: unknown key 'AGENTEVAL_ASEMBLY__X'",
            id="a section misspelt",
        ),
        pytest.param(
            "",
            {"AGENTEVAL_JUDGE_MODEL": "x"},
            r"key 'AGENTEVAL_JUDGE_MODEL': did you mean AGENTEVAL_JUDGE__MODEL\?",
            id="one underscore for two",
        ),
        pytest.param("judge.model: x", {}, "'judge.model': write judge: with model: below it", id="levels in one key"),
        pytest.param("asembly: {}", {}, "did you mean 'assembly'", id="a section that is like a known one"),
        pytest.param("judge: {budgt: {}}", {}, r"did you mean 'judge\.budget'", id="a key that is like a known one"),
        pytest.param(
            "judge: {rubrics: [{name: a, question: b, scal: 1}]}", {}, r"'judge\.rubrics\.0\.scal'$", id="in a list"
        ),
        pytest.param("session: {min_coverage: 2}", {}, "min_coverage: .*less than or equal to 1", id="out of range"),
        pytest.param("assembly: {settle: soon}", {}, "assembly.settle", id="a duration that is none"),
        pytest.param("assembly: {settle: -1s}", {}, "settle: give a number of seconds", id="a negative duration"),
        pytest.param("session: {idle: .inf}", {}, r"session\.idle: give a number", id="a duration without end"),
        pytest.param(
            "judge: {budget: {usd_per_day: .inf}}", {}, r"usd_per_day: .*finite", id="a bound that bounds nothing"
        ),
        pytest.param(
            "judge: {rubrics: [{name: a, question: b, scale: [1, 1]}]}", {}, "no scale", id="a scale of a point"
        ),
        pytest.param(
            "judge: {rubrics: [{name: a, question: b, scale: [0, .inf]}]}",
            {},
            "scale.*finite",
            id="a scale without end",
        ),
        pytest.param("- a", {}, "must be a mapping", id="a list instead of settings"),
        pytest.param("a: [", {}, r"\.yaml, line 1: is not YAML: expected", id="broken YAML"),
        pytest.param("judge: {}\nserver: {}\njudge: {}", {}, "line 3: .*'judge' is there twice", id="a key twice"),
        pytest.param("? [a, b]\n: 1", {}, "line 1: is not YAML: found unhashable key", id="a list as a key"),
        pytest.param(
            "evaluators: {agent_reliability: {weight: 1}}", {}, r"unknown key .*weight", id="weight of a session score"
        ),
        pytest.param("server: {grpc_address: localhost}", {}, "server.grpc_address", id="an address without port"),
        pytest.param("server: {web_address: '127.0.0.1:99999'}", {}, "from 0 .* to 65535", id="a port that is none"),
        pytest.param("server: {web_address: '::1:80'}", {}, "in brackets", id="an IPv6 address without brackets"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, yaml: str, environ: dict[str, str], message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml)
    with pytest.raises(ConfigError, match=message):
        load(file, environ)


@pytest.mark.parametrize("name", EvaluatorsConfig.model_fields)
def test_one_setting_of_an_evaluator_leaves_its_others_as_they_are(name: str) -> None:
    before, changed = (
        getattr(load(environ=environ).evaluators, name) for environ in ({}, {_ENABLED.format(name): "0"})
    )
    assert changed == before.model_copy(update={"enabled": False})


_ENABLED = "AGENTEVAL_EVALUATORS__{}__ENABLED"


def test_the_clients_variables_are_not_the_collectors() -> None:
    assert load(environ={"AGENTEVAL_ENDPOINT": "http://127.0.0.1:4317"}) == Settings()


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        load(tmp_path / "absent.yaml", {})


def test_secrets_are_not_printed() -> None:
    settings = load(environ={"AGENTEVAL_SERVER__KEYS": "[hunter2]", "AGENTEVAL_EXPORT__HEADERS": "{api-key: hunter2}"})
    assert "hunter2" not in repr(settings) + settings.model_dump_json()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h.example/v1", "https://h.example/v1"),
        ("https://ann:pa@ss@h.example/v1", "https://**********@h.example/v1"),
        ("https://h.example/v1?sig=secret", "https://h.example/v1?**********"),
    ],
)
def test_urls_are_printed_without_their_secrets(url: str, shown: str) -> None:
    settings = load(environ={}, flags={"judge": {"base_url": url}, "export": {"endpoint": url}})
    printed = settings.model_dump(mode="json")
    assert (settings.judge.base_url, settings.export.endpoint) == (url, url)
    assert (printed["judge"]["base_url"], printed["export"]["endpoint"]) == (shown, shown)
