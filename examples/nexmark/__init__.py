"""NEXMark, the benchmark of an online auction, as queries on a stream of people, auctions and bids."""
