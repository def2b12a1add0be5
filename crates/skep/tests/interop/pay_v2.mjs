// Pays whatever a URL asks for with the x402 client of version 2, as it is published.
// Usage: PRIVATE_KEY=0x… ALLOW='{"network":…,"asset":…,"max":…}' node pay_v2.mjs URL BODY
// With PAYMENT_ID it names its payment, if the server says that it understands that.
import { wrapFetchWithPayment, x402Client, decodePaymentResponseHeader } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { privateKeyToAccount } from "viem/accounts";

const [url, body] = process.argv.slice(2);
const account = privateKeyToAccount(process.env.PRIVATE_KEY);
const client = new x402Client().register("eip155:*", new ExactEvmScheme(account));
// Its owner says which asset it may pay in besides the well-known ones, and how much at once.
if (process.env.ALLOW) {
  const { network, asset, max } = JSON.parse(process.env.ALLOW);
  client.setSpendControls({ allowedAssets: [{ network, asset, maxAmountPerPayment: max }] });
}
const id = process.env.PAYMENT_ID;
if (id) {
  const key = "payment-identifier";
  client.registerExtension({
    key,
    enrichPaymentPayload: async (payload, { extensions }) => {
      if (!extensions?.[key]) throw new Error("the server does not take names of payments");
      return { ...payload, extensions: { ...payload.extensions, [key]: { info: { id } } } };
    },
  });
}
const pay = wrapFetchWithPayment(fetch, client);
const response = await pay(url, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body,
});
const header = response.headers.get("payment-response");
console.log(JSON.stringify({
  status: response.status,
  settled: header ? decodePaymentResponseHeader(header) : null,
  body: await response.json(),
}));
