from agenteval_collector.fleet.offsets import Offsets


def test_the_lag_of_a_partition_is_what_is_not_done_with() -> None:
    offsets = Offsets()
    offsets.take({1, 2})
    assert offsets.lags() == {}, "the ends are not known yet"
    offsets.saw(1, 10, 15)
    offsets.saw(2, 0, 0)
    offsets.saw(3, 0, 9)
    assert offsets.lags() == {1: 5, 2: 0}, "the third is not ours"
    offsets.note(1, 12)
    offsets.saw(1, 12, 20)
    assert offsets.lags() == {1: 8, 2: 0}
    offsets.drop({1})
    assert offsets.lags() == {2: 0}
