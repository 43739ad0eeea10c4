"""What crosses a link: values, containers, messages, frames and the handshake. Pure: bytes in, values out."""
