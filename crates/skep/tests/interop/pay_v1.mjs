// Pays whatever a URL asks for with the x402 client of version 1, as it is published.
// Usage: PRIVATE_KEY=0x… node pay_v1.mjs URL BODY
import { wrapFetchWithPayment, decodeXPaymentResponse } from "x402-fetch";
import { privateKeyToAccount } from "viem/accounts";

const [url, body] = process.argv.slice(2);
const account = privateKeyToAccount(process.env.PRIVATE_KEY);
const pay = wrapFetchWithPayment(fetch, account);
const response = await pay(url, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body,
});
const header = response.headers.get("x-payment-response");
console.log(JSON.stringify({
  status: response.status,
  settled: header ? decodeXPaymentResponse(header) : null,
  body: await response.json(),
}));
