#include "cli/topology_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "fabric/topology.h"
#include "os/unique_fd.h"

namespace weft::cli {
namespace {

[[nodiscard]] std::unexpected<Error> too_large(const std::string& path) {
  return fail(ErrorCode::InvalidArgument, "{} is not a topology: it has more than {} MiB", path,
              kMaxTopologyBytes >> 20);
}

}  // namespace

Result<std::string> read_topology_file(const std::string& path) {
  // O_NOCTTY: a terminal is refused below, and must not become this process's own.
  const os::UniqueFd file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0) {
    return fail(ErrorCode::NotFound, "{} cannot be read ({}) and is not a generator: {}", path,
                std::strerror(errno), fabric::kGeneratorForms);
  }
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode)) {
    return fail(ErrorCode::InvalidArgument, "{} is {}; a topology is a file or a pipe", path,
                S_ISDIR(status.st_mode) ? "a folder" : "a device or socket");
  }
  if (S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) > kMaxTopologyBytes) {
    return too_large(path);
  }
  std::string text;
  std::vector<char> buffer(std::size_t{64} << 10);
  while (true) {
    const ssize_t count = read(file.get(), buffer.data(), buffer.size());
    if (count == 0) {
      return text;
    }
    if (count < 0 && errno != EINTR) {
      return fail(ErrorCode::Io, "{} cannot be read: {}", path, std::strerror(errno));
    }
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    if (text.size() > kMaxTopologyBytes) {
      return too_large(path);
    }
  }
}

}  // namespace weft::cli
