"""RabbitMQ: the topology as data, and what is done with it."""
