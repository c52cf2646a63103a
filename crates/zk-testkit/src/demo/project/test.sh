#!/usr/bin/env bash
# Tests of lib/basket.sh. Ends with 0 when all pass.
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
source lib/basket.sh

failed=0

check() { # NAME EXPECTED ACTUAL
    if [[ "$2" == "$3" ]]; then
        echo "ok   $1"
    else
        echo "FAIL $1: expected $2, got $3"
        failed=1
    fi
}

check "an empty basket costs nothing" 0 "$(basket_total </dev/null)"
check "one item costs its price" 250 "$(echo "bread 250 1" | basket_total)"
check "a quantity counts" 750 "$(echo "bread 250 3" | basket_total)"
check "items add up" 980 "$(printf 'bread 250 2\nmilk 120 4\n' | basket_total)"
check "a discount is taken off" 900 "$(basket_discount 1000 10)"

if ((failed)); then
    echo "some tests failed"
else
    echo "all tests passed"
fi
exit "$failed"
