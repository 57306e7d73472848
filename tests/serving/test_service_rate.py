"""When it is worth trying again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from unmask.serving.service_rate import ServiceRate
from unmask.serving.tenant import tenant_of


def steady(rate: float, seconds: int) -> ServiceRate:
    """A server that has been busy since 0 and finished ``rate`` requests a second."""
    service = ServiceRate()
    service.begin(0.0)
    for number in range(1, int(rate * seconds) + 1):
        service.finish(number / rate)
    return service


def test_those_ahead_at_the_rate_at_which_requests_end():
    assert steady(2.0, 30).retry_after(ahead=19, now=30.0) == 10
    assert steady(0.5, 30).retry_after(ahead=19, now=30.0) == 40


def test_the_window_forgets():
    service = steady(10.0, 60)
    for number in range(1, 61):
        service.finish(60.0 + number)  # one a second from here on
    assert 9 <= service.retry_after(ahead=9, now=120.0) <= 10


def test_idle_time_is_not_slowness():
    service = steady(2.0, 30)
    service.rest(30.0)
    service.begin(10_000.0)
    assert service.retry_after(ahead=19, now=10_000.0) == 10


def test_before_the_first_end_it_is_taken_to_be_near():
    service = ServiceRate()
    service.begin(0.0)
    assert service.retry_after(ahead=4, now=2.0) == 10


@given(ends=st.lists(st.floats(0, 1000), max_size=30), ahead=st.integers(0, 10**6), wait=st.floats(0, 1000))
def test_it_is_whole_seconds_from_1_to_600(ends, ahead, wait):
    service = ServiceRate()
    service.begin(0.0)
    for end in sorted(ends):
        service.finish(end)
    seconds = service.retry_after(ahead, max(ends, default=0.0) + wait)
    assert isinstance(seconds, int)
    assert 1 <= seconds <= 600
    assert service.retry_after(ahead + 1, max(ends, default=0.0) + wait) >= seconds


def request(token: str | None) -> Request:
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    return Request({"type": "http", "headers": headers})


def test_a_tenant_is_a_token_and_a_user_and_the_token_does_not_show():
    assert tenant_of(request(None), None) == tenant_of(request(None), "") == ""
    tenants = {tenant_of(request(token), user) for token in (None, "secret", "other") for user in (None, "ann", "ben")}
    assert len(tenants) == 9
    assert tenant_of(request("secret"), "ann") == tenant_of(request("secret"), "ann")
    assert not any("secret" in tenant for tenant in tenants)
