"""The test of the alerts runs the shipped rules with another clock, and changes nothing else."""

from tests.support.scaled import scaled, scaled_rules


def test_all_durations_of_a_rule_are_shorter_and_what_counts_stays() -> None:
    expression = "increase(x_total[1h] offset 1w) > 14.4 * 0.02 and time() - y_seconds < 10 * 60"
    rule = {"alert": "A", "expr": expression, "for": "5m", "keep_firing_for": "2m", "annotations": {"summary": "in 5m"}}
    [group] = scaled_rules({"groups": [{"name": "g", "rules": [rule]}]}, 20)["groups"]
    assert group["rules"] == [
        {
            **rule,
            "expr": "increase(x_total[180000ms] offset 30240000ms) > 14.4 * 0.02 and time() - y_seconds < 10 * 3",
            "for": "15000ms",
            "keep_firing_for": "6000ms",
        }
    ]


def test_intervals_and_waits_of_a_configuration_are_shorter() -> None:
    route = {"receiver": "r", "group_wait": "5s", "routes": [{"repeat_interval": "7d"}]}
    assert scaled({"route": route, "global": {"scrape_interval": "15s"}}, 20) == {
        "route": {"receiver": "r", "group_wait": "250ms", "routes": [{"repeat_interval": "30240000ms"}]},
        "global": {"scrape_interval": "750ms"},
    }
