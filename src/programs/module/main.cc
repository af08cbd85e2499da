#include <CLI/CLI.hpp>
#include <string>

#include "programs/module/commands.h"

namespace {

constexpr int kWrongUsage = 2;

namespace module_ = weft::programs::modules;

void add_target(CLI::App& command, module_::Target& target) {
  command.add_option("module", target.name, "The module, as `weft module list` names it")
      ->required();
  command.add_option("--host", target.host, "Its host, where it is loaded on several");
  command.add_option("--name", target.fabric, "Name of the fabric");
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{
      "Upper-layer protocols written for a kernel's RDMA API, as ordinary programs of hosts."};
  app.name("weft module");
  app.require_subcommand(1);
  app.footer(
      "Try:  weft up pair;  weft module run ./thing.so --host h1 depth=4;  weft module list");
  int status = 0;

  module_::RunOptions options;
  auto* const run = app.add_subcommand("run", "Load a module into a process, this one, of a host");
  run->add_option("file", options.file, "A shared object, built as docs/guide/module.md says")
      ->required();
  run->add_option("parameters", options.parameters, "As name=value");
  run->add_option("--host", options.host, "Default: the one that `weft exec` has put this on");
  run->add_option("--name", options.fabric, "Name of the fabric");
  run->add_flag("--fast-registration", options.registers_fast,
                "A device with registration by work requests, of what lies in one piece");
  run->add_flag("--debug", options.shows_debug, "Show what it says by pr_debug(), too");
  run->callback([&] { status = module_::run(options); });

  std::string fabric;
  auto* const list = app.add_subcommand("list", "Say which are loaded");
  list->add_option("--name", fabric, "Name of the fabric");
  list->callback([&] { status = module_::list(fabric); });

  module_::Target target;
  module_::Request request;
  auto* const remove = app.add_subcommand("remove", "Run a module's exit function and end it");
  add_target(*remove, target);
  remove->callback([&] {
    request.operation = module_::Operation::Remove;
    status = module_::ask(target, request);
  });
  auto* const read = app.add_subcommand("read", "Print an entry that it has in /proc or /sys");
  auto* const write = app.add_subcommand("write", "Write a line to one, and wait until it is done");
  for (CLI::App* const command : {read, write}) {
    add_target(*command, target);
    command->add_option("entry", request.entry, "Its name")->required();
  }
  write->add_option("text", request.text, "The line")->required();
  read->callback([&] {
    request.operation = module_::Operation::Read;
    status = module_::ask(target, request);
  });
  write->callback([&] {
    request.operation = module_::Operation::Write;
    if (!request.text.ends_with('\n')) {
      request.text += '\n';  // as echo does
    }
    status = module_::ask(target, request);
  });

  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return status;
}
