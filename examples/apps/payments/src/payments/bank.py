"""The bank's API."""

import requests

from payments.errors import BankFailed, NotCovered, Refused


class Bank:
    def __init__(self, url, timeout=1.0):
        self._charges, self._timeout = url + "/v2/charges", timeout
        self._session = requests.Session()

    def charge(self, payment):
        """Has a payment charged, and returns the number of the charge. The bank knows a payment that comes again by its key."""
        body = {
            "reference": str(payment.payment_id),
            "amount": str(payment.amount),
            "currency": payment.currency,
            "debtor": payment.customer,
        }
        key = {"Idempotency-Key": str(payment.payment_id)}
        try:
            response = self._session.post(self._charges, json=body, headers=key, timeout=self._timeout)
        except requests.RequestException as error:
            raise BankFailed(repr(error)) from error
        if response.status_code == 402:
            raise NotCovered(response.text[:200])
        if response.status_code == 422:
            raise Refused(response.text[:200])
        if not response.ok:
            retry_after = response.headers.get("Retry-After", "0")
            raise BankFailed(response.text[:200], float(retry_after) if retry_after.isdigit() else 0.0)
        try:
            return response.json()["charge"]
        except (ValueError, KeyError, TypeError) as error:
            # The answer broke off. If the bank has charged the payment, it knows it when it comes again.
            raise BankFailed(f"answered {response.text[:200]!r}") from error
