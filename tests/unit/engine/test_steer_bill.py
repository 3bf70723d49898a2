"""What a compression costs and saves."""

from ctxkit.config import Price
from ctxkit.engine.steer.bill import bill_of
from ctxkit.port import Usage

PRICE = Price(cached=0.1, written=1.25, output=5, input_usd=2.0)


def test_a_bill_adds_the_summary_to_what_moves_in_the_cache_and_says_when_it_pays():
    usage = Usage(input_tokens=10_000, output_tokens=200, cache_read_tokens=10_000)
    bill = bill_of(PRICE, tokens_before=10_000, tokens_after=4_000, stable_tokens=1_000, usage=usage)
    assert bill is not None
    assert bill.summary == 0.1 * 10_000 + 5 * 200
    assert (bill.next_without, bill.next_with) == (1_000, 100 + 1.25 * 3_000)
    assert bill.saved_a_step == 600
    assert bill.steps_to_pay == 1 + 9  # (2,000 + 3,850 - 1,000) / 600, rounded up
    assert bill.dollars == 4_850 * 2.0 / 1_000_000


def test_what_frees_nothing_never_pays_for_itself():
    bill = bill_of(PRICE, tokens_before=1_000, tokens_after=1_000, stable_tokens=1_000, usage=None)
    assert bill is not None
    assert bill.steps_to_pay is None


def test_without_prices_there_is_no_bill():
    assert bill_of(None, tokens_before=2, tokens_after=1, stable_tokens=0, usage=None) is None
