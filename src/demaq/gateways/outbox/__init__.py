"""Send what outgoing gateways hold, durably and again where that helps."""
