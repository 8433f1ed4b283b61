"""What session servers are told of the slots that a data server leads, and what people and clients read there."""
