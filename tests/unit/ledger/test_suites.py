"""Tests in the output of test runners, as the runners print it."""

from __future__ import annotations

import pytest

from ctxkit.ledger import Ledger, facts_of, suites
from tests.unit.fakes import agent, call, result

PYTEST = """\
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-8.3.3, pluggy-1.5.0
collected 6 items

tests/test_cart.py::test_total PASSED                                    [ 16%]
tests/test_cart.py::TestTax::test_rate[de 19%] FAILED                    [ 33%]
tests/test_cart.py::test_later SKIPPED (not on this platform)            [ 50%]
tests/test_cart.py::test_known XFAIL (issue 12)                          [ 66%]
tests/test_cart.py::test_setup ERROR                                     [ 83%]
=================================== FAILURES ===================================
E   assert 3 == 4
=========================== short test summary info ============================
FAILED tests/test_cart.py::TestTax::test_rate[de 19%] - assert 3 == 4
ERROR tests/test_cart.py::test_setup - RuntimeError: FAILED to connect
ERROR tests/test_broken.py - ImportError: cannot import name 'x'
=================== 1 failed, 1 passed, 1 skipped, 2 errors in 0.12s ===========
"""
XDIST = """\
[gw0] [ 50%] PASSED tests/test_cart.py::test_total
[gw1] [100%] FAILED tests/test_cart.py::test_tax
"""
UNITTEST = """\
test_total (tests.test_cart.CartTest.test_total) ... ok
test_tax (tests.test_cart.CartTest.test_tax) ... FAIL
test_rate (tests.test_cart.CartTest.test_rate)
The rate is that of the country. ... ok
test_later (tests.test_cart.CartTest.test_later) ... skipped 'no database'
test_known (tests.test_cart.CartTest.test_known) ... expected failure

======================================================================
ERROR: tests.test_broken (unittest.loader._FailedTest.tests.test_broken)
----------------------------------------------------------------------
ImportError: Failed to import test module: tests.test_broken
======================================================================
FAIL: test_tax (tests.test_cart.CartTest.test_tax)
----------------------------------------------------------------------
AssertionError: 3 != 4

----------------------------------------------------------------------
Ran 5 tests in 0.003s

FAILED (failures=1, errors=1, skipped=1, expected failures=1)
"""
JEST = """\
PASS src/cart.test.js
FAIL src/tax.test.ts (5.31 s)
  tax
    ✓ adds the rate (3 ms)
    ✕ rounds half up (1 ms)
    ○ skipped knows every country

  ● tax › rounds half up

    expect(received).toBe(expected) // Object.is equality

Test Suites: 1 failed, 1 passed, 2 total
Tests:       1 failed, 1 skipped, 4 passed, 6 total
"""
VITEST = """\
 RUN  v2.1.8 /srv/shop

 ✓ src/cart.test.ts (3 tests) 5ms
 ❯ src/tax.test.ts (2 tests | 1 failed) 12ms
   × tax > rounds half up 6ms
     → expected 1 to be 2 // Object.is equality

 FAIL  src/tax.test.ts > tax > rounds half up
AssertionError: expected 1 to be 2

 Test Files  1 failed | 1 passed (2)
"""
MOCHA = """\
  Cart
    ✔ adds up
    1) rounds half up
    - knows every country

  1 passing (8ms)
  1 pending
  1 failing

  1) Cart
       rounds half up:

      AssertionError [ERR_ASSERTION]: 1 == 2
"""
GO = """\
=== RUN   TestTotal
--- PASS: TestTotal (0.00s)
=== RUN   TestTax
=== RUN   TestTax/de
    tax_test.go:14: got 3, want 4
--- FAIL: TestTax (0.00s)
    --- FAIL: TestTax/de (0.00s)
--- SKIP: TestLater (0.00s)
FAIL
FAIL\texample.com/shop/tax\t0.004s
ok  \texample.com/shop/cart\t(cached)
ok  \texample.com/shop/cart/v2\t0.311s\tcoverage: 81.2% of statements
?   \texample.com/shop/cmd\t[no test files]
FAIL\texample.com/shop/broken [build failed]
FAIL
"""
CARGO = """\
running 4 tests
test tests::adds ... ok
test tests::rounds ... FAILED
test tests::slow ... ignored, takes an hour
test tests::refuses - should panic ... ok
test src/lib.rs - add (line 5) ... ok

failures:

---- tests::rounds stdout ----
thread 'tests::rounds' panicked at src/lib.rs:12:9:
assertion `left == right` failed

test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
MAVEN = """\
[INFO] Running com.shop.CartTest
[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.041 s -- in com.shop.CartTest
[INFO] Running com.shop.TaxTest
[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.012 s <<< FAILURE! -- in com.shop.TaxTest
[ERROR] com.shop.TaxTest.rounds -- Time elapsed: 0.005 s <<< FAILURE!
[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0
"""
OLD_MAVEN = "Tests run: 3, Failures: 0, Errors: 1, Skipped: 0, Time elapsed: 0.04 sec <<< ERROR! - in com.shop.CartTest"
GRADLE = """\
> Task :test FAILED

CartTest > adds up() PASSED

TaxTest > rounds() FAILED
    org.opentest4j.AssertionFailedError at TaxTest.java:9

TaxTest > later() SKIPPED

3 tests completed, 1 failed, 1 skipped
"""
JUNIT = f"""\
<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="com.shop.TaxTest" tests="4" failures="1" errors="1" skipped="1">
  <properties><property name="java.version" value="17"/></properties>
  <testcase name="adds" classname="com.shop.TaxTest" time="0.001"/>
  <testcase classname="com.shop.TaxTest" name="List&lt;Rate&gt;" time="0.01">
    <failure message="expected: &lt;3&gt; but was: &lt;4&gt;" type="AssertionFailedError"><![CDATA[
{"at com.shop.TaxTest.rounds(TaxTest.java:9)" * 200}
]]></failure>
  </testcase>
  <testcase name="breaks" classname="com.shop.TaxTest"><error type="NullPointerException"/></testcase>
  <testcase name="later" classname="com.shop.TaxTest"><skipped/></testcase>
  <testcase name="prints" classname="com.shop.TaxTest"><system-out>no failure here</system-out></testcase>
</testsuite>
"""
TAP = """\
TAP version 14
1..5
ok 1 - adds up
not ok 2 - rounds half up
  ---
  message: 'expected 1 to be 2'
  ...
ok 3 - knows every country # SKIP no network
not ok 4 - divides # TODO later
    ok 1 - inner
ok 5 the old way
"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            PYTEST,
            {
                "tests/test_cart.py::test_total": "passed",
                "tests/test_cart.py::test_later": "skipped",
                "tests/test_cart.py::test_known": "skipped",
                "tests/test_cart.py::TestTax::test_rate[de 19%]": "failed",
                "tests/test_cart.py::test_setup": "failed",
                "tests/test_broken.py": "failed",
            },
            id="pytest",
        ),
        pytest.param(
            XDIST, {"tests/test_cart.py::test_total": "passed", "tests/test_cart.py::test_tax": "failed"}, id="xdist"
        ),
        pytest.param(
            UNITTEST,
            {
                "test_total (tests.test_cart.CartTest.test_total)": "passed",
                "test_rate (tests.test_cart.CartTest.test_rate)": "passed",
                "test_later (tests.test_cart.CartTest.test_later)": "skipped",
                "test_known (tests.test_cart.CartTest.test_known)": "skipped",
                "tests.test_broken (unittest.loader._FailedTest.tests.test_broken)": "failed",
                "test_tax (tests.test_cart.CartTest.test_tax)": "failed",
            },
            id="unittest",
        ),
        pytest.param(
            JEST,
            {
                "src/cart.test.js": "passed",
                "src/tax.test.ts": "failed",
                "adds the rate": "passed",
                "rounds half up": "failed",
                "knows every country": "skipped",
            },
            id="jest",
        ),
        pytest.param(
            VITEST,
            {"src/cart.test.ts": "passed", "tax > rounds half up": "failed", "src/tax.test.ts": "failed"},
            id="vitest",
        ),
        pytest.param(MOCHA, {"rounds half up": "failed", "adds up": "passed"}, id="mocha"),
        pytest.param(
            GO,
            {
                "TestTotal": "passed",
                "TestTax": "failed",
                "TestTax/de": "failed",
                "TestLater": "skipped",
                "example.com/shop/tax": "failed",
                "example.com/shop/cart": "passed",
                "example.com/shop/cart/v2": "passed",
                "example.com/shop/broken": "failed",
            },
            id="go",
        ),
        pytest.param(
            CARGO,
            {
                "tests::adds": "passed",
                "tests::rounds": "failed",
                "tests::slow": "skipped",
                "tests::refuses": "passed",
                "src/lib.rs - add (line 5)": "passed",
            },
            id="cargo",
        ),
        pytest.param(MAVEN, {"com.shop.CartTest": "passed", "com.shop.TaxTest": "failed"}, id="maven"),
        pytest.param(OLD_MAVEN, {"com.shop.CartTest": "failed"}, id="old maven"),
        pytest.param(
            GRADLE,
            {"CartTest > adds up()": "passed", "TaxTest > rounds()": "failed", "TaxTest > later()": "skipped"},
            id="gradle",
        ),
        pytest.param(
            JUNIT,
            {
                "com.shop.TaxTest.adds": "passed",
                "com.shop.TaxTest.List<Rate>": "failed",
                "com.shop.TaxTest.breaks": "failed",
                "com.shop.TaxTest.later": "skipped",
                "com.shop.TaxTest.prints": "passed",
            },
            id="JUnit",
        ),
        pytest.param(
            TAP,
            {
                "adds up": "passed",
                "rounds half up": "failed",
                "knows every country": "skipped",
                "divides": "skipped",
                "inner": "passed",
                "the old way": "passed",
            },
            id="TAP",
        ),
    ],
)
def test_each_test_that_a_runner_names_is_known_with_its_state(output, expected):
    assert suites.tests_in(output, 60) == expected


@pytest.mark.parametrize(
    "output",
    [
        "tests/a.py::test_x \x1b[32mPASSED\x1b[0m  [ 50%]\n\x1b[31mFAILED\x1b[0m tests/a.py::\x1b[1mtest_y\x1b[0m - assert 0",
        "\x1b[7m\x1b[32m PASS \x1b[39m\x1b[27m \x1b[2msrc/\x1b[22ma.test.js\n  \x1b[31m✕\x1b[39m \x1b[2mrounds (2 ms)\x1b[22m",
        "test a::adds ... \x1b[32mok\x1b[m\ntest a::rounds ... \x1b[31mFAILED\x1b[m",
        "\x1b[32m--- PASS: TestA (0.00s)\x1b[0m\n\x1b[31m--- FAIL: TestB (0.00s)\x1b[0m",
    ],
    ids=["pytest", "jest", "cargo", "gotestsum"],
)
def test_colours_hide_no_test(output):
    assert sorted(facts_of(result("1", output, name="Bash")).tests.values()) == ["failed", "passed"]


@pytest.mark.parametrize(
    "text",
    [
        "ERROR    shop.db:client.py:12 connection lost",
        "FAILED to start the server, see shop.log",
        "ok then 5.2s later it passed",
        "The plan:\n  1) read the file\n  2) mend it, all 3 passing (I hope)",
        "PASS the salt",
        "PASSED",
        "Tests run: 3, Failures: 0",
        "test the thing ... and so on",
        "<testcase" * 5,
    ],
)
def test_what_only_looks_like_a_test_is_none(text):
    assert suites.tests_in(text, 60) == {}


def test_of_too_many_the_failed_ones_stay():
    lines = [f"test t{n} ... {'FAILED' if n == 3 else 'ok'}" for n in range(90)]
    found = suites.tests_in("\n".join(lines), 60)
    assert (len(found), found["t3"]) == (60, "failed")


@pytest.mark.asyncio
async def test_a_test_of_go_has_passed_when_all_packages_do():
    failed = [call("1", "Bash", command="go test ./..."), result("1", f"{GO}exit code 1", name="Bash")]
    passed = [call("2", "Bash", command="go test ./..."), result("2", "ok  \tshop/tax\t0.1s\nexit code 0", name="Bash")]
    before = await Ledger().read([agent(*failed)])
    after = await before.read([agent(*passed)])
    assert (before.tests["TestTax/de"].state, after.tests["TestTax/de"].state) == ("failed", "passed")
    assert after.open_failures == ()
