#include "programs/net/host_interface.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/time.h"
#include "os/clock.h"

namespace weft::programs::net {
namespace {

/// /run is the host's own. Locked by who has the interface, so that its end, of whatever kind, ends
/// this, too.
constexpr const char* kLockFile = "/run/weft-net.pid";
constexpr Duration kPatience = Duration::seconds(2);  // policy
constexpr std::chrono::milliseconds kPause{10};       // policy

[[nodiscard]] std::optional<IpAddress> address_in(const sockaddr* address) {
  if (address == nullptr) {
    return std::nullopt;
  }
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    return IpAddress::v4(ntohl(in.sin_addr.s_addr));
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    IpAddress::V6Octets octets{};
    std::memcpy(octets.data(), &in.sin6_addr, octets.size());
    return IpAddress{octets};
  }
  return std::nullopt;
}

}  // namespace

Result<os::UniqueFd> take_interface() {
  os::UniqueFd file{open(kLockFile, O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
  if (!file) {
    return fail(ErrorCode::Io, "{}: {}", kLockFile, std::strerror(errno));
  }
  // Who was killed loses the interface first, and the lock some time after.
  const Instant patient_until = os::now() + kPatience;
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (if_nametoindex("ib0") != 0 || os::now() >= patient_until) {
      return fail(ErrorCode::Exists, "ib0 is up already");
    }
    std::this_thread::sleep_for(kPause);
  }
  const std::string text = fmt::format("{}\n", getpid());
  if (ftruncate(file.get(), 0) != 0 ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return fail(ErrorCode::Io, "{}: {}", kLockFile, std::strerror(errno));
  }
  return file;
}

std::optional<pid_t> owner_of_interface() {
  const os::UniqueFd file{open(kLockFile, O_RDWR | O_CLOEXEC)};
  if (!file || flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
    return std::nullopt;
  }
  std::array<char, 32> text{};
  const ssize_t length = ::read(file.get(), text.data(), text.size());
  pid_t pid = 0;
  const auto read = std::from_chars(text.data(), text.data() + std::max<ssize_t>(length, 0), pid);
  return read.ec == std::errc{} && pid > 1 ? std::optional{pid} : std::nullopt;
}

std::vector<IpAddress> addresses_of(const std::string& interface) {
  std::vector<IpAddress> addresses;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    return addresses;
  }
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (std::string_view{each->ifa_name} == interface) {
      if (const auto address = address_in(each->ifa_addr)) {
        addresses.push_back(*address);
      }
    }
  }
  freeifaddrs(all);
  return addresses;
}

}  // namespace weft::programs::net
