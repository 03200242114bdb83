"""What can keep a payment from being charged."""


class Unavailable(Exception):
    """Something that the worker needs does not answer. This says nothing about the payment."""


class Refused(Exception):
    """The payment can't be charged: calling again would not help."""


class NotCovered(Exception):
    """The account is not covered. This is a result, not a failure."""


class BankFailed(Exception):
    """The bank did not charge the payment, and may do so later."""

    def __init__(self, reason, retry_after=0.0):
        super().__init__(reason)
        self.retry_after = retry_after
