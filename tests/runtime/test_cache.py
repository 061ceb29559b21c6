import pytest

from runtime.cache import ReuseCache


@pytest.fixture
def cache():
    """Blocks a (10 bytes), b (20), c (10), freed in this order."""
    cache = ReuseCache()
    cache.put((10, 0), "a")
    cache.put((20, 0), "b")
    cache.put((10, 0), "c")
    return cache


@pytest.mark.row("ALC-03")
def test_most_recently_freed_block_is_taken_first(cache):
    assert [cache.take((10, 0)) for _ in range(3)] == ["c", "a", None]


@pytest.mark.row("ALC-03")
def test_size_and_options_must_match(cache):
    assert cache.take((11, 0)) is None
    assert cache.take((10, 1)) is None


def test_size_follows_what_is_held(cache):
    assert (cache.size, cache.largest, len(cache)) == (40, 20, 3)
    cache.take((20, 0))
    assert (cache.size, cache.largest, len(cache)) == (20, 10, 2)


def test_oldest_blocks_are_given_up_first(cache):
    assert cache.evict(25) == ["a", "b"]
    assert cache.blocks() == ["c"]
    assert cache.take((10, 0)) == "c"


def test_nothing_is_given_up_within_the_limit(cache):
    assert cache.evict(40) == []


def test_empty_cache_has_no_largest_block():
    assert ReuseCache().largest == 0
