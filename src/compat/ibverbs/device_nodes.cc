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
constexpr const char* kPlaceholder = "/dev/null";  // a character device that everybody may access

[[nodiscard]] const char* placeholder_for(const char* path) {
  constexpr std::size_t kLength = sizeof kFolder - 1;
  const bool ours = path != nullptr && std::strncmp(path, kFolder, kLength) == 0 &&
                    is_device_node(path + kLength);
  return ours ? kPlaceholder : path;
}

int stat_or_placeholder(const char* path, struct stat* status) {
  return stat(placeholder_for(path), status);
}

int access_or_placeholder(const char* path, int mode) {
  return access(placeholder_for(path), mode);
}

}  // namespace

void answer_for_device_nodes(const void* address) {
  const Replacement replacements[] = {
      {"stat",   reinterpret_cast<std::uintptr_t>(&stat_or_placeholder)  },
      {"access", reinterpret_cast<std::uintptr_t>(&access_or_placeholder)},
  };
  lead_links_of(address, replacements);
}

}  // namespace weft::compat
