#include "kernel/freed_objects.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace weft::kernel::internal {
namespace {

constexpr int kMostFrames = 16;  // policy

struct Freed {
  const char* kind{};
  std::uint64_t number{};
  std::string by;
  std::array<void*, kMostFrames> frames{};
  int depth{};
};

struct Table {
  std::mutex mutex;
  std::unordered_map<const void*, Freed> freed;
  std::deque<const void*> order;  // the oldest first; some are made anew
};

Table& table() {
  static auto& made = *new Table;  // never destroyed: modules are used until the end
  return made;
}

}  // namespace

/// "int ib_destroy_qp_user(ib_qp *, ib_udata *)" is ib_destroy_qp: as its caller wrote it.
std::string name_of(const Call& call) {
  std::string_view name{call.function_name()};
  name = name.substr(0, name.find('('));
  name.remove_prefix(name.find_last_of(" :*&") + 1);  // npos + 1 is 0
  while (name.starts_with('_')) {
    name.remove_prefix(1);
  }
  if (name.ends_with("_user")) {
    name.remove_suffix(std::string_view{"_user"}.size());
  }
  return std::string{name};
}

void note_made(const void* face) {
  const std::lock_guard lock{table().mutex};
  table().freed.erase(face);
}

void note_destroyed(const void* face, const char* kind, std::uint64_t number, const char* by) {
  Freed made{.kind = kind, .number = number, .by = by};
  made.depth = backtrace(made.frames.data(), kMostFrames);
  const std::lock_guard lock{table().mutex};
  if (table().order.size() == kMostFreedObjects) {
    table().freed.erase(table().order.front());
    table().order.pop_front();
  }
  table().freed[face] = std::move(made);
  table().order.push_back(face);
}

void check_alive(const void* face, const Call& call) {
  const std::lock_guard lock{table().mutex};
  const auto found = table().freed.find(face);
  if (found == table().freed.end()) {
    return;
  }
  const Freed& freed = found->second;
  const std::uint64_t number =
      freed.number != 0 ? freed.number : std::bit_cast<std::uintptr_t>(face);
  fmt::print(stderr, "weft-rdma: {}: {} {:#x} was destroyed by {} at\n", name_of(call), freed.kind,
             number, freed.by);
  std::fflush(stderr);
  backtrace_symbols_fd(freed.frames.data(), freed.depth, STDERR_FILENO);
  std::abort();
}

}  // namespace weft::kernel::internal
