"""Pays whatever a URL asks for with the x402 client from PyPI.

Usage: PRIVATE_KEY=0x… ALLOW='{"network":…,"asset":…,"max":…}' python pay.py URL BODY
"""

import asyncio
import json
import os
import sys

from eth_account import Account
from x402 import x402Client
from x402.http.clients import x402HttpxClient
from x402.http.utils import decode_payment_response_header
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact.register import register_exact_evm_client


async def main(url: str, body: str) -> None:
    client = x402Client()
    register_exact_evm_client(client, EthAccountSigner(Account.from_key(os.environ["PRIVATE_KEY"])))
    # Its owner says which asset it may pay in besides the well-known ones, and how much at once.
    if allow := json.loads(os.environ.get("ALLOW", "null")):
        asset = {"network": allow["network"], "asset": allow["asset"]}
        client.set_spend_controls({"allowed_assets": [asset | {"max_amount_per_payment": allow["max"]}]})
    async with x402HttpxClient(client, timeout=60) as http:
        headers = {"content-type": "application/json"}
        response = await http.post(url, content=body, headers=headers)
        header = response.headers.get("payment-response")
        settled = decode_payment_response_header(header).model_dump() if header else None
        print(json.dumps({"status": response.status_code, "settled": settled, "body": response.json()}))


asyncio.run(main(sys.argv[1], sys.argv[2]))
