"""Hash tables of keys and states for compiled code, in memory and with a database behind them."""
