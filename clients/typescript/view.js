// The view of a conversation, made by its patches.

/** A view without anything in it. */
export function emptyView() {
  return { switches: 0, blocks: [], cards: [], queue: [], status: { activity: { doing: "idle" } }, agents: [], jobs: [], checklist: [] };
}

/** Characters of a running call's output that are kept, about. */
const MAX_PROGRESS_CHARS = 64 * 1024;

function place(view, id) {
  for (let at = view.blocks.length - 1; at >= 0; at -= 1) {
    if (view.blocks[at].id === id) return at;
  }
  return -1;
}

function put(view, block) {
  const at = place(view, block.id);
  if (at < 0) view.blocks.push(block);
  else view.blocks[at] = block;
}

function grow(block, delta) {
  const content = { ...block.content };
  if (content.type === "answer" || content.type === "thinking") content.text += delta;
  else if (content.type === "call") content.progress = ((content.progress ?? "") + delta).slice(-MAX_PROGRESS_CHARS);
  return { ...block, content };
}

/** Makes the change that a patch says, in the view itself. */
export function applyPatch(view, patch) {
  switch (patch.patch) {
    case "reset": {
      Object.assign(view, emptyView(), structuredClone(patch.view));
      break;
    }
    case "open":
      view.blocks.push(patch.block);
      break;
    case "change":
    case "close":
      put(view, patch.block);
      break;
    case "grow": {
      const at = place(view, patch.id);
      if (at >= 0) view.blocks[at] = grow(view.blocks[at], patch.delta);
      break;
    }
    case "remove": {
      const at = place(view, patch.id);
      if (at >= 0) view.blocks.splice(at, 1);
      break;
    }
    case "ask":
      view.cards.push(patch.card);
      break;
    case "answered":
      view.cards = view.cards.filter((card) => card.id !== patch.id);
      break;
    case "queue":
      view.queue = patch.queued;
      break;
    case "status":
      view.status = patch.status;
      break;
    case "agents":
      view.agents = patch.agents;
      break;
    case "jobs":
      view.jobs = patch.jobs;
      break;
    case "checklist":
      view.checklist = patch.items;
      break;
    default:
      break;
  }
  return view;
}
