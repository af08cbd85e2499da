#include "compat/ibverbs/device_nodes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compat/ibverbs/links.h"

namespace weft::compat {
namespace {

constexpr char kFolder[] = "/dev/infiniband/";
constexpr const char* kStandIn = "/dev/null";  // a character device that everybody may use

[[nodiscard]] const char* stand_in_for(const char* path) {
  constexpr std::size_t kLength = sizeof kFolder - 1;
  const bool ours = path != nullptr && std::strncmp(path, kFolder, kLength) == 0 &&
                    is_device_node(path + kLength);
  return ours ? kStandIn : path;
}

int stat_or_stand_in(const char* path, struct stat* status) {
  return stat(stand_in_for(path), status);
}

int access_or_stand_in(const char* path, int mode) { return access(stand_in_for(path), mode); }

}  // namespace

void answer_for_device_nodes(const void* address) {
  const Replacement replacements[] = {
      {"stat",   reinterpret_cast<std::uintptr_t>(&stat_or_stand_in)  },
      {"access", reinterpret_cast<std::uintptr_t>(&access_or_stand_in)},
  };
  lead_links_of(address, replacements);
}

}  // namespace weft::compat
