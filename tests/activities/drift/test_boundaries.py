"""P31: windows are cut where the Temporal server itself matches, across both changes of clocks."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.drift.windows import matching_times, schedule_id, window_until
from activities.schedules import schedule_of
from activities.temporal import ensure_search_attributes
from store.caller import Tenant
from store.scheduled import ScheduledBinding
from wyrd.wire.ids import uuid7

TENANT = Tenant(uuid7(), "local")
SECOND = timedelta(seconds=1)
NEW_YORK, LORD_HOWE = "America/New_York", "Australia/Lord_Howe"

Scheduled = Callable[[str, str], Awaitable[str]]


@pytest.fixture
async def client(temporal_address: str) -> Client:
    opened = await Client.connect(temporal_address, data_converter=pydantic_data_converter)
    await ensure_search_attributes(opened)
    return opened


@pytest.fixture
def scheduled(client: Client) -> Scheduled:
    """A Schedule as a binding has it; the binding's id."""

    async def made(cron: str, tz: str) -> str:
        binding_id = uuid7()
        one = ScheduledBinding(
            TENANT, binding_id, "s/v@1.0.0", "s/Service/o@1.0.0", "active", cron, tz, False
        )
        schedule = schedule_of(one)
        schedule.state.paused = True
        await client.create_schedule(schedule_id(TENANT, binding_id), schedule)
        return binding_id

    return made


async def test_p31_a_time_that_a_day_does_not_have_is_skipped_and_its_window_joins_the_next(
    client: Client, scheduled: Scheduled
) -> None:
    """02:30 does not exist in New York on 14 March 2027."""
    binding_id = await scheduled("30 2 * * *", NEW_YORK)
    zone = ZoneInfo(NEW_YORK)
    before, after = (datetime(2027, 3, day, 2, 30, tzinfo=zone) for day in (13, 15))
    assert await matching_times(client, TENANT, binding_id, before - SECOND, after + timedelta(days=1)) == [
        before,
        after,
        after.replace(day=16),
    ]
    window = await window_until(client, TENANT, binding_id, after)
    assert window == (before, after)
    assert after.astimezone(UTC) - before.astimezone(UTC) == timedelta(hours=47)


async def test_p31_a_time_that_comes_twice_makes_two_windows(client: Client, scheduled: Scheduled) -> None:
    """01:30 comes twice in New York on 1 November 2026."""
    binding_id = await scheduled("30 1 * * *", NEW_YORK)
    zone = ZoneInfo(NEW_YORK)
    first, second = (datetime(2026, 11, 1, 1, 30, tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    before, after = (
        datetime(2026, day_month, day, 1, 30, tzinfo=zone).astimezone(UTC)
        for day_month, day in ((10, 31), (11, 2))
    )
    found = await matching_times(client, TENANT, binding_id, before - SECOND, after)
    assert found == [before, first, second, after]
    assert second - first == timedelta(hours=1)
    for window in itertools.pairwise(found):
        assert await window_until(client, TENANT, binding_id, window[1]) == window


@pytest.mark.parametrize(
    ("tz", "day", "runs"),
    [
        (NEW_YORK, date(2027, 3, 14), 92),
        (NEW_YORK, date(2026, 11, 1), 100),
        (LORD_HOWE, date(2026, 10, 4), 94),
        ("EST5EDT", date(2027, 3, 14), 92),
        ("UTC", date(2027, 3, 14), 96),
    ],
)
async def test_p31_every_quarter_of_an_hour_of_such_days_is_a_window(
    client: Client, scheduled: Scheduled, tz: str, day: date, runs: int
) -> None:
    binding_id = await scheduled("*/15 * * * *", tz)
    start = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(tz)).astimezone(UTC)
    following = day + timedelta(days=1)
    end = datetime(following.year, following.month, following.day, tzinfo=ZoneInfo(tz)).astimezone(UTC)
    found = await matching_times(client, TENANT, binding_id, start - SECOND, end)
    assert found[0] == start
    assert found[-1] == end
    assert len(found) - 1 == runs
    assert {later - earlier for earlier, later in itertools.pairwise(found)} == {timedelta(minutes=15)}


async def test_p31_a_shift_of_half_an_hour_is_as_the_server_sees_it_and_still_tiles(
    client: Client, scheduled: Scheduled
) -> None:
    """Lord Howe skips 02:00 to 02:30 on 4 October 2026: the server takes 02:15 as 02:45 that day. On 4
    April 2027 it has 01:30 to 02:00 twice, and the server passes over six quarters around it."""
    zone = ZoneInfo(LORD_HOWE)
    daily = await scheduled("15 2 * * *", LORD_HOWE)
    days = [datetime(2026, 10, day, 2, 15, tzinfo=zone) for day in (3, 4, 5)]
    days[1] = days[1].replace(minute=45)
    times = await matching_times(client, TENANT, daily, days[0] - SECOND, days[2])
    assert times == [day.astimezone(UTC) for day in days]

    quarters = await scheduled("*/15 * * * *", LORD_HOWE)
    start, end = (datetime(2027, 4, day, tzinfo=zone).astimezone(UTC) for day in (4, 5))
    times = await matching_times(client, TENANT, quarters, start - SECOND, end)
    assert (times[0], times[-1], len(times) - 1) == (start, end, 92)
    lengths = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert sorted(lengths)[-3:] == [timedelta(minutes=minutes) for minutes in (15, 45, 75)]
    for window in itertools.pairwise(times):
        assert await window_until(client, TENANT, quarters, window[1]) == window


@pytest.mark.parametrize("tz", [NEW_YORK, LORD_HOWE, "Europe/Berlin"])
async def test_p31_the_windows_of_a_year_tile_it(client: Client, scheduled: Scheduled, tz: str) -> None:
    """Whatever slot is judged, its window begins where the one before ended."""
    binding_id = await scheduled("30 2 * * *", tz)
    start = datetime(2026, 6, 1, tzinfo=UTC)
    times = await matching_times(client, TENANT, binding_id, start, start + timedelta(days=366))
    assert 364 <= len(times) <= 367
    ends = times[0]
    for boundary in times[1:]:
        window = await window_until(client, TENANT, binding_id, boundary)
        assert window == (ends, boundary)
        ends = boundary


async def test_p31_a_year_of_quarters_has_no_gap_and_no_overlap(client: Client, scheduled: Scheduled) -> None:
    """More boundaries than the server lists at once."""
    binding_id = await scheduled("*/15 * * * *", NEW_YORK)
    start, end = datetime(2026, 6, 1, tzinfo=UTC), datetime(2027, 6, 1, tzinfo=UTC)
    times = await matching_times(client, TENANT, binding_id, start - SECOND, end)
    assert times == [start + timedelta(minutes=15) * n for n in range(365 * 96 + 1)]


async def test_a_moment_between_boundaries_belongs_to_the_last_window_that_is_complete(
    client: Client, scheduled: Scheduled
) -> None:
    binding_id = await scheduled("0 6 * * *", "UTC")
    boundary = datetime(2026, 6, 2, 6, tzinfo=UTC)
    day = timedelta(days=1)
    for moment in (boundary, boundary + timedelta(hours=23, minutes=59)):
        assert await window_until(client, TENANT, binding_id, moment) == (boundary - day, boundary)
    moment = boundary - timedelta(microseconds=1)
    assert await window_until(client, TENANT, binding_id, moment) == (boundary - 2 * day, boundary - day)


async def test_a_schedule_of_leap_days_has_windows_of_years(client: Client, scheduled: Scheduled) -> None:
    binding_id = await scheduled("0 0 29 2 *", "UTC")
    window = await window_until(client, TENANT, binding_id, datetime(2029, 1, 1, tzinfo=UTC))
    assert window == (datetime(2024, 2, 29, tzinfo=UTC), datetime(2028, 2, 29, tzinfo=UTC))


async def test_a_day_of_the_month_and_a_day_of_the_week_must_both_match(
    client: Client, scheduled: Scheduled
) -> None:
    binding_id = await scheduled("0 0 13 * FRI", "UTC")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = await matching_times(client, TENANT, binding_id, start, start + timedelta(days=365))
    assert [(one.month, one.day) for one in times] == [(2, 13), (3, 13), (11, 13)]
