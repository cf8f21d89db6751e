"""From the steps of a planned query to the operators of a topology."""
