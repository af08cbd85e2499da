// Addresses, interfaces of the network, and random numbers.

#include <net/if.h>
#include <netdb.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <linux/errno.h>
#include <linux/inet.h>
#include <linux/kernel.h>
#include <linux/netdevice.h>
#include <linux/random.h>

struct net init_net{};

namespace {

/// The address at the beginning of a text, which ends where `delimiter` or no letter of one comes.
int parse(int family, const char* text, int length, u8* to, int delimiter, const char** end) {
  const std::size_t most = length < 0 ? std::strlen(text) : static_cast<std::size_t>(length);
  const std::string_view letters = family == AF_INET ? "0123456789." : "0123456789abcdefABCDEF:.";
  std::size_t count = 0;
  while (count < most && letters.contains(text[count])) {
    ++count;
  }
  if (count < most && delimiter >= 0 && text[count] != static_cast<char>(delimiter)) {
    return 0;
  }
  const std::string address{text, count};
  if (inet_pton(family, address.c_str(), to) != 1) {
    return 0;
  }
  if (end != nullptr) {
    *end = text + count;
  }
  return 1;
}

[[nodiscard]] net_device* make_device(const char* name, unsigned index) {
  auto made = std::make_unique<net_device>();
  std::string_view{name}.copy(&made->name[0], IFNAMSIZ_KENV - 1);
  made->ifindex = static_cast<int>(index);
  return made.release();
}

}  // namespace

__be32 in_aton(const char* text) {
  in_addr address{};
  return inet_pton(AF_INET, text, &address) == 1 ? address.s_addr : 0;
}

int in4_pton(const char* text, int length, u8* to, int delimiter, const char** end) {
  return parse(AF_INET, text, length, to, delimiter, end);
}

int in6_pton(const char* text, int length, u8* to, int delimiter, const char** end) {
  return parse(AF_INET6, text, length, to, delimiter, end);
}

int inet_pton_with_scope(struct net* /*net*/, unsigned short family, const char* text,
                         const char* port, struct sockaddr_storage* to) {
  u16 number = 0;
  if (port != nullptr && kstrtou16(port, 0, &number) != 0) {
    return -EINVAL;
  }
  std::string address{text};
  unsigned scope = 0;
  if (const std::size_t percent = address.find('%'); percent != std::string::npos) {
    scope = if_nametoindex(address.substr(percent + 1).c_str());
    if (scope == 0) {
      return -EINVAL;
    }
    address.resize(percent);
  }
  *to = {};
  sockaddr_in six_or_four{};
  if (family != AF_INET6 && inet_pton(AF_INET, address.c_str(), &six_or_four.sin_addr) == 1) {
    six_or_four.sin_family = AF_INET;
    six_or_four.sin_port = htons(number);
    std::memcpy(to, &six_or_four, sizeof six_or_four);
    return 0;
  }
  sockaddr_in6 six{};
  if (family != AF_INET && inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(number);
    six.sin6_scope_id = scope;
    std::memcpy(to, &six, sizeof six);
    return 0;
  }
  return -EINVAL;
}

struct net_device* dev_get_by_name(struct net* /*net*/, const char* name) {
  const unsigned index = if_nametoindex(name);
  return index == 0 ? nullptr : make_device(name, index);
}

struct net_device* dev_get_by_index(struct net* /*net*/, int index) {
  std::array<char, IF_NAMESIZE> name{};
  if (index <= 0 || if_indextoname(static_cast<unsigned>(index), name.data()) == nullptr) {
    return nullptr;
  }
  return make_device(name.data(), static_cast<unsigned>(index));
}

void dev_hold(struct net_device* device) {
  __atomic_add_fetch(&device->references, 1, __ATOMIC_SEQ_CST);
}

void dev_put(struct net_device* device) {
  if (device != nullptr && __atomic_sub_fetch(&device->references, 1, __ATOMIC_SEQ_CST) < 0) {
    std::unique_ptr<net_device>{device}.reset();
  }
}

void get_random_bytes(void* to, size_t count) {
  auto* const bytes = static_cast<char*>(to);
  for (std::size_t done = 0; done < count;) {
    const ssize_t got = getrandom(bytes + done, count - done, 0);
    done += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
}

u32 get_random_u32() {
  u32 number = 0;
  get_random_bytes(&number, sizeof number);
  return number;
}

u64 get_random_u64() {
  u64 number = 0;
  get_random_bytes(&number, sizeof number);
  return number;
}
