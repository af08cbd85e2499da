#include "compat/ibverbs/sysfs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "compat/ibverbs/objects.h"
#include "os/run_directory.h"

namespace weft::compat {
namespace {

void write_file(const std::string& path, const std::string& text) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    std::ofstream{path} << text << '\n';
  }
}

/// A GUID in the form of sysfs: four groups of four hex digits.
[[nodiscard]] std::string text_of(Guid guid) {
  const std::uint64_t value = guid.value();
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", value >> 48, value >> 32 & 0xFFFF,
                     value >> 16 & 0xFFFF, value & 0xFFFF);
}

}  // namespace

std::string sysfs_path() {
  if (const char* path = std::getenv("SYSFS_PATH"); path != nullptr && *path == '/') {
    return path;
  }
  const host::ProcessOptions options = host::options_of_environment();
  return fmt::format("{}/sys/{}", os::fabric_directory(options.run, options.fabric), options.host);
}

void write_sysfs(std::span<const host::HostHca> hcas) {
  const std::string base = sysfs_path() + "/class/infiniband";
  for (const host::HostHca& hca : hcas) {
    const std::string folder = base + "/" + hca.name;
    std::error_code error;
    std::filesystem::create_directories(folder + "/ports", error);
    if (error) {
      return;
    }
    write_file(folder + "/node_type", "1: CA");
    write_file(folder + "/node_guid", text_of(hca.node_guid));
    write_file(folder + "/sys_image_guid", text_of(hca.system_image_guid));
    write_file(folder + "/fw_ver", "1.0.0");
    write_file(folder + "/hca_type", "Weft");
    write_file(folder + "/board_id", "WEFT_HCA");
    write_file(folder + "/node_desc", hca.name);
  }
}

}  // namespace weft::compat

extern "C" {

WEFT_EXPORT const char* ibv_get_sysfs_path() {
  static const std::string path = weft::compat::sysfs_path();
  return path.c_str();
}

WEFT_EXPORT int ibv_read_sysfs_file(const char* folder, const char* file, char* buffer,
                                    std::size_t size) {
  const std::string path = fmt::format("{}/{}", folder, file);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return -1;
  }
  const ssize_t count = read(fd, buffer, size);
  close(fd);
  if (count < 0) {
    return -1;
  }
  // Replace the last newline by the terminating null.
  auto length = static_cast<std::size_t>(count);
  if (length > 0 && buffer[length - 1] == '\n') {
    buffer[--length] = '\0';
  } else if (length < size) {
    buffer[length] = '\0';
  } else {
    return -1;
  }
  return static_cast<int>(length);
}

}  // extern "C"
