# Functions over a basket: lines of "name price quantity", prices in cents.

# The price of the whole basket.
basket_total() {
    local total=0 name price quantity
    while read -r name price quantity; do
        total=$((total + price))
    done
    echo "$total"
}

# basket_discount TOTAL PERCENT: what is left to pay.
basket_discount() {
    echo $(($1 - $1 * $2 / 100))
}
