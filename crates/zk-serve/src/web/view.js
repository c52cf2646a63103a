// The view of a conversation, rebuilt from its patches.
class View {
  constructor() { this.reset({}); }

  reset(view) {
    this.switches = view.switches || 0;
    this.blocks = new Map((view.blocks || []).map((block) => [block.id, block]));
    this.cards = view.cards || [];
    this.queue = view.queue || [];
    this.status = view.status || { activity: { doing: "idle" } };
    this.agents = view.agents || [];
    this.jobs = view.jobs || [];
    this.checklist = view.checklist || [];
  }

  // Makes the change that a patch says. Gives the name of what changed, and the block where it is one.
  apply(patch) {
    switch (patch.patch) {
      case "reset": this.reset(patch.view); return ["all"];
      case "open": case "change": case "close":
        this.blocks.set(patch.block.id, patch.block);
        return ["block", patch.block];
      case "grow": {
        const block = this.blocks.get(patch.id);
        if (!block) return ["nothing"];
        const content = block.content;
        if (content.type === "call") content.progress = lastLines((content.progress || "") + patch.delta, 5, 2048);
        else content.text += patch.delta;
        return ["block", block];
      }
      case "remove": this.blocks.delete(patch.id); return ["removed", { id: patch.id }];
      case "body": return ["body", patch];
      case "ask": this.cards.push(patch.card); return ["cards"];
      case "answered": this.cards = this.cards.filter((card) => card.id !== patch.id); return ["cards"];
      case "queue": this.queue = patch.queued; return ["queue"];
      case "status": this.status = patch.status; return ["status"];
      case "agents": this.agents = patch.agents; return ["work"];
      case "jobs": this.jobs = patch.jobs; return ["work"];
      case "checklist": this.checklist = patch.items; return ["work"];
      default: return ["nothing"];
    }
  }

  get isRunning() { return this.status.activity.doing !== "idle"; }
}

function lastLines(text, lines, chars) {
  return text.split("\n").slice(-lines).join("\n").slice(-chars);
}
