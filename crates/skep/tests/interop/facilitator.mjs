// How many payments the facilitator from npm verifies in a second, for the benchmark. Its chain is
// one that answers at once from memory, so what is measured is its own work.
// Usage: node facilitator.mjs SECONDS
import { x402Facilitator } from "@x402/core/facilitator";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { ExactEvmScheme as ExactEvmClient } from "@x402/evm/exact/client";
import { recoverTypedDataAddress } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const seconds = Number(process.argv[2] ?? 3);
const account = privateKeyToAccount(generatePrivateKey());
const requirements = {
  scheme: "exact",
  network: "eip155:84532",
  amount: "20000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
  maxTimeoutSeconds: 600,
  extra: { name: "USDC", version: "2" },
};

const chain = {
  getAddresses: () => [account.address],
  // The token is a contract, the payer is not.
  getCode: async ({ address }) =>
    address.toLowerCase() === requirements.asset.toLowerCase() ? "0x60" : undefined,
  readContract: async ({ functionName }) => {
    switch (functionName) {
      case "balanceOf": return 10n ** 12n;
      case "authorizationState": return false;
      case "name": return "USDC";
      case "version": return "2";
      default: return undefined;
    }
  },
  verifyTypedData: async ({ address, signature, ...typed }) =>
    (await recoverTypedDataAddress({ ...typed, signature })).toLowerCase() === address.toLowerCase(),
  writeContract: async () => "0x" + "00".repeat(32),
  sendTransaction: async () => "0x" + "00".repeat(32),
  waitForTransactionReceipt: async () => ({ status: "success" }),
};

const facilitator = new x402Facilitator().register("eip155:84532", new ExactEvmScheme(chain));
const client = new ExactEvmClient(account);
const payloads = [];
for (let n = 0; n < 64; n++) {
  const made = await client.createPaymentPayload(2, requirements);
  payloads.push({ ...made, accepted: requirements, resource: { url: "http://localhost/" } });
}
const first = await facilitator.verify(payloads[0], requirements);
if (!first.isValid) throw new Error(`the reference refuses its own payment: ${JSON.stringify(first)}`);

let verified = 0;
const used = process.cpuUsage();
const start = process.hrtime.bigint();
const end = start + BigInt(Math.round(seconds * 1e9));
while (process.hrtime.bigint() < end) {
  const answer = await facilitator.verify(payloads[verified % payloads.length], requirements);
  if (!answer.isValid) throw new Error(JSON.stringify(answer));
  verified += 1;
}
const elapsed = Number(process.hrtime.bigint() - start) / 1e9;
const { user, system } = process.cpuUsage(used);
const cpu_seconds = (user + system) / 1e6;
console.log(JSON.stringify({ verified, seconds: elapsed, cpu_seconds, per_second: verified / elapsed }));
