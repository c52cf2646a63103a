// Three prompts, a permission, a text in between, a stop, two sessions and a lost connection, at `zk rpc --socket PATH`.
// Takes the file that zk names at its start, and prints the session with its view in the end.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { type Client, type Conversation, connectSocket } from "@zk-agent/rpc";

const access = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8"));

async function connect() {
  const client = await connectSocket(access.socket);
  return [client, await client.initialize({ role: "approver", token: access.approver_token })] as const;
}

const hasRunningCall = ({ view }: Conversation) => view.blocks.some(({ content }) => content.type === "call" && content.state === "running");

/** Shows what the next question is about, and agrees this once. */
async function approve(conversation: Conversation) {
  await conversation.until(({ view }) => view.cards.length > 0);
  const [card] = conversation.view.cards;
  if (card?.question.ask !== "approve") throw new Error("that is no question about a call");
  console.error(card.approval?.title, card.question.args);
  await conversation.answer(card, { answer: "once" });
}

let [client, server] = await connect();
const conversation = await client.newConversation();
let sent = await conversation.submit("run touch made");
await approve(conversation);
await conversation.settledAfter(sent);

sent = await conversation.submit("run until test -e go; do sleep 0.02; done");
await approve(conversation);
await conversation.until(hasRunningCall);
await conversation.steer("And then look around.");
client.close(); // The run goes on.
await client.closed;
writeFileSync(join(server.cwd, "go"), "");
[client] = await connect();
await conversation.moveTo(client);
await conversation.settledAfter(sent);

sent = await conversation.submit("run sleep 1000");
await conversation.until(hasRunningCall);
await conversation.stop();
await conversation.settledAfter(sent);

const { session } = await conversation.request("settings/get");
if (!session) throw new Error("the session is not stored");
await conversation.switch("new");
console.error(await conversation.ask("Hello."));
const switched = (conversation.view.switches ?? 0) + 1;
await conversation.switch({ session });
await conversation.until(({ view }) => view.switches === switched);
console.log(JSON.stringify({ conversation: conversation.id, session, view: conversation.view }));
client.close();
