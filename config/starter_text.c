/* SPDX-License-Identifier: Apache-2.0 */
#include "config/starter_text.h"

#include "base/mem.h"

static const char run_yaml[] =
    "# A run: an acting agent works on tasks, a judge scores what it left, an evolver improves the template.\n"
    "#\n"
    "#   orch check run.yaml              proves the set-up before anything is spent\n"
    "#   orch run run.yaml                trains; the same command goes on after a stop\n"
    "#   orch eval run.yaml               measures the result on the held-out split\n"
    "#   orch config explain task.timeout explains any key\n"
    "#\n"
    "# Relative paths start at this file.\n"
    "version: 1\n"
    "name: @NAME@\n"
    "seed: @SEED@\n"
    "\n"
    "data:\n"
    "  tasks: @TASKS@    # one JSON object a line, each with a unique `id`\n"
    "  train: train.txt    # ids, one a line; the three splits share no task\n"
    "  val: val.txt\n"
    "  test: test.txt      # only `orch eval` reads it\n"
    "  step_size: @STEP@        # tasks of one step\n"
    "  answers: [answer]   # fields that the acting agent never gets\n"
    "\n"
    "task_info: task-info/ # what everybody may know about the tasks\n"
    "\n"
    "candidate:\n"
    "  template: template/ # version 0: what the evolver improves\n"
    "\n"
    "environment: host     # where sandboxes are opened\n"
    "\n"
    "task:\n"
    "  agent: command\n"
    "  command: [./solve]  # reads the task, leaves /w/output/answer.txt\n"
    "  network: no-network\n"
    "  timeout: 1m\n"
    "  limits: {memory: 1GiB, disk: 256MiB}\n"
    "  concurrency: 2\n"
    "\n"
    "judge:\n"
    "  mode: host          # the host runs it; it sees the answers\n"
    "  command: [./judge]\n"
    "  collect: [output/]\n"
    "  timeout: 1m\n"
    "\n"
    "evolver:\n"
    "  agent: command\n"
    "  command: [./learn]  # reads what was judged, edits a copy of the template\n"
    "  timeout: 5m\n"
    "\n"
    "trainer:\n"
    "  epochs: 1\n"
    "  gate: none          # validation: accept a version only if the val split says so\n"
    "  select: last\n"
    "\n"
    "# Models, once an agent needs one; `key` is the NAME of a variable, and no sandbox ever sees its value:\n"
    "# models:\n"
    "#   fast: {provider: openai, key: OPENAI_API_KEY, model: …, price: {input: 1.0, output: 4.0}}\n"
    "# budget: {usd: 5.0, wall: 2h}\n";

#define GET                                                                                                            \
    "# The value of a flat JSON member; enough for this starter. A real program would use a JSON library.\n"           \
    "get() { sed -n \"s/.*\\\"$1\\\"[[:space:]]*:[[:space:]]*\\\"\\{0,1\\}\\([^\\\",}]*\\).*/\\1/p\" \"$2\"; }\n"      \
    "\n"

static const char solve[] =
    "#!/bin/sh\n"
    "# The acting agent. ORCH_CONTEXT names what it was given: the task without answers, the version of the\n"
    "# template (absent for the baseline), and where its output goes. This one always gives the answer that the\n"
    "# template holds; replace it with something that looks at the task.\n"
    "set -eu\n" GET "adapter=$(get adapter \"$ORCH_CONTEXT\")\n"
    "output=$(get output \"$ORCH_CONTEXT\")\n"
    "answer=\n"
    "if [ -f \"$adapter/answer.txt\" ]; then read -r answer <\"$adapter/answer.txt\" || :; fi\n"
    "printf '%s\\n' \"$answer\" >\"$output/answer.txt\"\n";

static const char judge[] =
    "#!/bin/sh\n"
    "# The judge. It gets the task with its answer and what the agent left, and writes a verdict: a score, and what\n"
    "# the evolver should know.\n"
    "set -eu\n" GET "expected=$(get answer \"$(get task \"$ORCH_CONTEXT\")\")\n"
    "collected=$(get collected \"$ORCH_CONTEXT\")\n"
    "given=\n"
    "if [ -f \"$collected/output/answer.txt\" ]; then file=$collected/output/answer.txt; else "
    "file=$collected/answer.txt; fi\n"
    "if [ -f \"$file\" ]; then read -r given <\"$file\" || :; fi\n"
    "score=0\n"
    "if [ \"$given\" = \"$expected\" ]; then score=1; fi\n"
    "printf '{\"score\": %d, \"feedback\": \"expected %s\"}\\n' \"$score\" \"$expected\" >\"$(get verdict "
    "\"$ORCH_CONTEXT\")\"\n";

static const char learn[] =
    "#!/bin/sh\n"
    "# The evolver. It reads the judged tasks of a step and edits the copy of the template in place. This one learns\n"
    "# the answer that is right most often.\n"
    "set -eu\n" GET "adapter=$(get adapter \"$ORCH_CONTEXT\")\n"
    "state=$(get state \"$ORCH_CONTEXT\") # kept from step to step\n"
    "for file in \"$(get material \"$ORCH_CONTEXT\")\"/tasks/*.json; do\n"
    "    feedback=$(get feedback \"$file\")\n"
    "    if [ -n \"$feedback\" ]; then printf '%s\\n' \"${feedback#expected }\" >>\"$state/seen.txt\"; fi\n"
    "done\n"
    "if [ -f \"$state/seen.txt\" ]; then\n"
    "    sort \"$state/seen.txt\" | uniq -c | sort -rn | sed -n '1s/^ *[0-9]* //p' >\"$adapter/answer.txt\"\n"
    "fi\n";

static const char adapter_yaml[] = "# What the evolver may change, and what stays as it is.\n"
                                   "template: @NAME@@1.0\n"
                                   "learnable: [answer.txt]\n"
                                   "fixed: [adapter.yaml]\n";

static const char readme[] =
    "# @NAME@\n"
    "\n"
    "What a task is, what an answer looks like, and how it is scored. Everybody may read this: the evolver does.\n";

const struct starter_text starter_texts[] = {
    {"run.yaml", 0644, run_yaml},
    {"solve", 0755, solve},
    {"judge", 0755, judge},
    {"learn", 0755, learn},
    {"template/adapter.yaml", 0644, adapter_yaml},
    {"template/answer.txt", 0644, "\n"},
    {"task-info/README.md", 0644, readme},
};
const size_t starter_text_count = ARRAY_LEN(starter_texts);

const char starter_example_tasks[] =
    "{\"id\": \"w01\", \"text\": \"The soup was warm and good.\", \"answer\": \"praise\"}\n"
    "{\"id\": \"w02\", \"text\": \"I waited an hour for cold tea.\", \"answer\": \"complaint\"}\n"
    "{\"id\": \"w03\", \"text\": \"Lovely room, kind people.\", \"answer\": \"praise\"}\n"
    "{\"id\": \"w04\", \"text\": \"We will come again.\", \"answer\": \"praise\"}\n"
    "{\"id\": \"w05\", \"text\": \"The bill was wrong twice.\", \"answer\": \"complaint\"}\n"
    "{\"id\": \"w06\", \"text\": \"Best bread in town.\", \"answer\": \"praise\"}\n"
    "{\"id\": \"w07\", \"text\": \"Nobody said a word to us.\", \"answer\": \"complaint\"}\n"
    "{\"id\": \"w08\", \"text\": \"A quiet table by the window.\", \"answer\": \"praise\"}\n"
    "{\"id\": \"w09\", \"text\": \"My coffee came with a smile.\", \"answer\": \"praise\"}\n"
    "{\"id\": \"w10\", \"text\": \"Too loud to talk.\", \"answer\": \"complaint\"}\n";
