"""Prompts, permissions, a stop, two sessions and a lost connection, with the file that `zk rpc --socket` names."""

import asyncio
import json
import pathlib
import sys

import zk_rpc


def has_running_call(conversation):
    return any(block["content"].get("state") == "running" for block in conversation.view["blocks"])


async def approve(conversation):
    await conversation.until(lambda now: now.view["cards"])
    card = conversation.view["cards"][0]
    print(card["approval"]["title"], card["question"]["args"], file=sys.stderr)
    await conversation.answer(card, {"answer": "once"})


async def main(access_file):
    access = json.loads(pathlib.Path(access_file).read_text())

    async def connect():
        client = await zk_rpc.connect_socket(access["socket"])
        return client, await client.initialize(role="approver", token=access["approver_token"])

    client, server = await connect()
    conversation = await client.new_conversation()
    sent = await conversation.submit("run touch made")
    await approve(conversation)
    await conversation.settled_after(sent)
    sent = await conversation.submit("run until test -e go; do sleep 0.02; done")
    await approve(conversation)
    await conversation.until(has_running_call)
    await conversation.steer("And then look around.")
    await client.close()  # The run goes on.
    pathlib.Path(server["cwd"], "go").touch()
    client, _ = await connect()
    await conversation.move_to(client)
    await conversation.settled_after(sent)
    sent = await conversation.submit("run sleep 1000")
    await conversation.until(has_running_call)
    await conversation.stop()
    await conversation.settled_after(sent)

    first = (await conversation.request("settings/get"))["session"]
    await conversation.switch("new")
    print(await conversation.ask("Hello."), file=sys.stderr)
    switched = conversation.view["switches"] + 1
    await conversation.switch({"session": first})
    await conversation.until(lambda now: now.view["switches"] == switched)
    print(json.dumps({"conversation": conversation.id, "session": first, "view": conversation.view}))
    await client.close()


asyncio.run(main(*sys.argv[1:]))
