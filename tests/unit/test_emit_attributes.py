import pytest
from agenteval_collector.emit.attributes import BoundedIdentities, clean
from agenteval_collector.emit.meter import OTHER
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.one_of(st.none(), st.sampled_from(["", OTHER, "a", "b", "c", "d", "e", "f"]))


def most_identities(*, services: int, pairs: int, versions: int, placed: int) -> int:
    """The most identities that can ever come out."""
    # Services may also be unknown or `_other`; every pair may also go without a version or with `_other`.
    versioned = 2 * (pairs + services + 2) + versions
    # The environment of any of these may also be unknown or `_other`.
    return 2 * versioned + placed


@given(st.lists(st.tuples(NAMES, NAMES, NAMES, NAMES), max_size=200))
def test_no_stream_of_names_makes_more_identities_than_promised(
    stream: list[tuple[str | None, str | None, str | None, str | None]],
) -> None:
    labels = BoundedIdentities(agents=2, services=2, pairs=3, versions=4, environments=2, placed=3)
    identities = {labels.identity(*names) for names in stream}
    assert len(identities) <= most_identities(services=2, pairs=3, versions=4, placed=3)


@given(st.lists(st.tuples(NAMES, NAMES, NAMES), max_size=100))
def test_below_the_bounds_agent_and_service_keep_their_names(
    stream: list[tuple[str | None, str | None, str | None]],
) -> None:
    labels = BoundedIdentities(agents=50, services=50, pairs=200, versions=500)
    for agent, service, version in stream:
        identity = labels.identity(agent, service, version)
        assert (identity.agent, identity.service) == (agent or None, service or None)
        assert identity.version in {version or None, OTHER}


def test_a_flood_of_agents_stays_bounded_and_leaves_other_services_apart() -> None:
    labels = BoundedIdentities()
    identities = {labels.identity(f"agent-{n}", "shop", f"{n}") for n in range(100_000)}
    assert len(identities) <= most_identities(services=100, pairs=200, versions=400, placed=800)
    assert labels.identity("planner", "bank", None).service == "bank"


def test_past_the_pairs_the_agent_gives_way_and_the_service_stays() -> None:
    labels = BoundedIdentities(pairs=1)
    assert labels.pair("planner", "shop") == ("planner", "shop")
    assert labels.pair("writer", "shop") == (OTHER, "shop")
    assert labels.pair("planner", "shop") == ("planner", "shop")


def test_a_service_shows_its_last_three_versions() -> None:
    labels = BoundedIdentities()

    def version_of(version: str, service: str = "shop") -> str | None:
        return labels.identity("planner", service, version).version

    assert [version_of(version) for version in ("1", "2", "3", "4")] == ["1", "2", "3", "4"]
    assert version_of("1") == OTHER, "a retired version stays retired"
    assert version_of("2") == "2"
    assert version_of("1", "bank") == "1", "versions are counted by service"


def test_an_environment_has_a_label_until_there_are_too_many() -> None:
    labels = BoundedIdentities(environments=2)

    def environment_of(environment: str | None) -> str | None:
        return labels.identity("planner", "shop", "1", environment).environment

    assert [environment_of(each) for each in ("production", "staging", "review-1", "staging", None, "")] == [
        "production", "staging", OTHER, "staging", None, None,
    ]  # fmt: skip


def test_agents_of_one_service_share_its_versions() -> None:
    labels = BoundedIdentities()
    for version in ("1", "2", "3", "4"):
        labels.identity("planner", "shop", version)
    assert labels.identity("writer", "shop", "4").version == "4"
    assert labels.identity("writer", "shop", "1").version == OTHER


def test_the_first_name_past_a_bound_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    labels = BoundedIdentities(agents=1)
    for agent in ("a", "b", "c"):
        labels.pair(agent, None)
    assert [record.getMessage() for record in caplog.records] == [
        "more than 1 agents were seen: instruments count the others as _other until the collector restarts"
    ]


def test_an_empty_name_is_an_unknown_one() -> None:
    assert BoundedIdentities().pair("", "") == (None, None)


@given(st.text(st.characters(exclude_categories=[]), max_size=40), st.integers(1, 20))
def test_clean_text_is_short_and_can_be_encoded(text: str, limit: int) -> None:
    cleaned = clean(text, limit)
    assert len(cleaned.encode().decode()) <= limit
    if len(text) <= limit and text.isascii():
        # No database can hold a NUL.
        assert cleaned == text.replace("\0", "?")
