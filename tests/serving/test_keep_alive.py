"""A sign of life whenever a stream is silent, and only then."""

import asyncio

from unmask.serving.keep_alive import KeepAlive


class Line:
    """What was sent, and when."""

    def __init__(self):
        self.sent = []

    async def send(self):
        self.sent.append(asyncio.get_running_loop().time())


async def test_silence_is_filled_at_regular_times():
    line = Line()
    async with KeepAlive(0.05, line.send).running():
        await asyncio.sleep(0.4)
    assert 2 <= len(line.sent) <= 8
    gaps = [later - sooner for sooner, later in zip(line.sent, line.sent[1:], strict=False)]
    assert min(gaps) >= 0.049


async def test_who_speaks_often_enough_needs_none():
    line = Line()
    keep_alive = KeepAlive(5.0, line.send)
    async with keep_alive.running():
        for _ in range(20):
            await asyncio.sleep(0.005)
            keep_alive.said()
    assert line.sent == []


async def test_what_was_said_moves_the_time():
    line = Line()
    keep_alive = KeepAlive(0.2, line.send)
    async with keep_alive.running():
        await asyncio.sleep(0.1)
        keep_alive.said()
        said = asyncio.get_running_loop().time()
        await asyncio.sleep(0.5)
    assert line.sent
    assert line.sent[0] - said >= 0.199


async def test_nothing_is_sent_once_the_stream_is_over():
    line = Line()
    async with KeepAlive(0.05, line.send).running():
        pass
    await asyncio.sleep(0.15)
    assert line.sent == []
