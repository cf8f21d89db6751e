"""``millstream sql test``: reads test files, runs their cases, compares the results, and reports them."""
