"""From running counts to the answers that programs and the dashboard read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rolin.errors import DataError
from rolin.offline.control_lift import By, compare_means
from rolin.service.schema import BanditInfo
from rolin.service.statistics.fold import DELAYS, Statistics
from rolin.service.statistics.schema import (
    ArmTraffic,
    Delay,
    Exploration,
    LiftAnswer,
    OverTime,
    Promise,
    Reading,
    Summary,
)
from rolin.service.statistics.series import GROUPS

__all__ = ["lift_of", "summary_of"]

_TOP = 7  # arms whose traffic is shown one by one: as many as there are colors that everybody can tell apart


def summary_of(
    statistics: Statistics,
    reading: Reading,
    info: BanditInfo,
    promises: Iterable[Promise],
    range_: str,
    now: float,
) -> Summary:
    """Return the summary of a bandit.

    Parameters
    ----------
    statistics
        What was counted.
    reading
        How much was read.
    info
        The bandit as it is.
    promises
        The state of what is promised.
    range_
        Name of the range of time to show.
    now
        The time.
    """
    n = statistics.drawn
    exploration = Exploration(n, None, None, None)
    if n:
        exploration = Exploration(
            n, statistics.top / n, statistics.other / n, statistics.in_play / n
        )
    return Summary(
        bandit=info,
        time=now,
        reading=reading,
        decisions=dict(statistics.decisions),
        mean_reward={
            by: _ratio(statistics.reward_sums[by], statistics.rewards[by]) for by in GROUPS
        },
        n_arms=len(statistics.arms.index),
        waiting=statistics.waiting,
        fates={**statistics.fates},
        delays=[
            Delay(end, rewards)
            for end, rewards in zip((*DELAYS, None), statistics.delays, strict=True)
        ],
        over_time=_over_time(statistics, range_, now),
        exploration=exploration,
        calibration=statistics.calibration.report(statistics.arms),
        promises=list(promises),
        changes=list(statistics.changes),
    )


def _ratio(total: float, n: int) -> float | None:
    return total / n if n else None


def _over_time(statistics: Statistics, range_: str, now: float) -> OverTime:
    series = statistics.series[range_]
    pairs = list(series.upto(now))
    times, buckets = [time for time, _ in pairs], [bucket for _, bucket in pairs]
    total: Counter[str] = Counter()
    for bucket in buckets:
        total.update(bucket.arms)
    shown = [arm for arm, _ in total.most_common(_TOP)]
    traffic = [ArmTraffic(arm, [bucket.arms[arm] for bucket in buckets]) for arm in shown]
    if len(total) > len(shown):
        rest = [
            sum(bucket.arms.values()) - sum(bucket.arms[arm] for arm in shown) for bucket in buckets
        ]
        traffic.append(ArmTraffic(None, rest))
    return OverTime(
        range_,
        series.width,
        times,
        {by: [bucket.decisions[by] for bucket in buckets] for by in GROUPS},
        {by: [bucket.rewards[by] for bucket in buckets] for by in GROUPS},
        {
            by: [_ratio(bucket.reward_sums[by], bucket.rewards[by]) for bucket in buckets]
            for by in GROUPS
        },
        traffic,
        [_ratio(bucket.other, bucket.drawn) for bucket in buckets],
    )


def lift_of(statistics: Statistics, by: By) -> LiftAnswer:
    """Return the gain of the policy over another group, since the shares were last changed."""
    ours, others = statistics.compared["policy"], statistics.compared[by]
    policy, other = ours.mean(), others.mean()
    answer = LiftAnswer(
        by, statistics.compared_since, policy.n, other.n, ours.effective_n, others.effective_n
    )
    try:
        found = compare_means(policy, other, by=by, level=answer.level)
    except DataError as error:
        answer.reason = str(error).replace("the log has", "so far there are")
        return answer
    answer.policy, answer.other = found.policy, found.control
    answer.gain, answer.low, answer.high = found.gain, found.low, found.high
    return answer
