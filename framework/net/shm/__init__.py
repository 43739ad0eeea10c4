"""Large bodies between processes of one machine, through memory that both ends of a link map.

`allocator` says which blocks of that memory are free; a `reservation` is a block that a body is written to before it is
sent; `segment` is the memory itself, seen from either end; `channel` is what a link does with it. The messages are in
`framework.wire.shm_messages`.
"""
