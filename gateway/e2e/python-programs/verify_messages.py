"""Verifies messages, given as JSON, with http-message-signatures of PyPI. Prints for each whether its signature and digest are good."""

import json
import sys
from types import SimpleNamespace

from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, InvalidSignature, algorithms

asked = json.load(sys.stdin)


class Keys(HTTPSignatureKeyResolver):
    def resolve_private_key(self, key_id: str):
        raise NotImplementedError

    def resolve_public_key(self, key_id: str):
        return asked["keys"][key_id].encode()


class Lines(list):
    def items(self):
        return self


def message_of(members):
    request = members.pop("request", None)
    message = SimpleNamespace(**members, **({"request": message_of(request)} if request else {}))
    message.headers = Lines((field["name"], field["value"]) for field in message.headers)
    return message


def is_good(message):
    verifier = HTTPMessageVerifier(
        signature_algorithm=getattr(algorithms, asked["algorithm"]), key_resolver=Keys()
    )
    body = message.pop("body")
    try:
        verifier.verify(message_of(message), expect_tag=message.pop("tag"), body=body.encode())
        return True
    except InvalidSignature as error:
        print(error, file=sys.stderr)
        return False


print(json.dumps([is_good(message) for message in asked["messages"]]))
