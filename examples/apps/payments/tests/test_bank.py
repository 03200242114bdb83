from unittest import mock
from uuid import UUID

import pytest
import requests

from payments.bank import Bank
from payments.errors import BankFailed, NotCovered, Refused

PAYMENT = mock.Mock(payment_id=UUID(int=1), amount="1.00", currency="EUR", customer=7)


def answer(status, text="", headers=()):
    response = requests.Response()
    response.status_code, response._content = status, text.encode()
    response.headers.update(headers)
    return response


def charge(**post):
    with mock.patch.object(requests.Session, "post", **post) as called:
        return Bank("http://bank").charge(PAYMENT), called


def test_charges():
    number, called = charge(return_value=answer(201, '{"charge": "c-1"}'))
    assert number == "c-1"
    assert called.call_args.args == ("http://bank/v2/charges",)
    assert called.call_args.kwargs["headers"] == {"Idempotency-Key": str(PAYMENT.payment_id)}


@pytest.mark.parametrize("status, error", [(402, NotCovered), (422, Refused), (503, BankFailed), (404, BankFailed)])
def test_is_not_charged(status, error):
    with pytest.raises(error, match="because"):
        charge(return_value=answer(status, "because"))


@pytest.mark.parametrize("text", ["", '{"char', "{}", "null"])
def test_what_it_answers_is_not_a_charge(text):
    with pytest.raises(BankFailed, match="answered"):
        charge(return_value=answer(201, text))


@pytest.mark.parametrize("header, seconds", [("2", 2.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0)])
def test_when_to_call_again(header, seconds):
    with pytest.raises(BankFailed) as failure:
        charge(return_value=answer(429, headers={"Retry-After": header}))
    assert failure.value.retry_after == seconds


def test_does_not_answer():
    with pytest.raises(BankFailed):
        charge(side_effect=requests.Timeout())
