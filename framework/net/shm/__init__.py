"""Large bodies between processes of one machine: through memory that both ends of a link see."""
