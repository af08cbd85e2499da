// The plugin of nbdkit that `weft iscsi attach` and its like run it with: a logical unit as an NBD
// export. The header's structure wants C's own idioms here.
#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#include <nbdkit-plugin.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/heap.h"
#include "programs/disk/disk.h"
#include "programs/iscsi/attach_command.h"
#include "programs/iscsi/initiator_path.h"
#include "programs/iscsi/target_url.h"
#include "programs/iser/iser_link.h"
#include "programs/srp/session_path.h"
#include "programs/srp/target_url.h"

namespace {

namespace disk = weft::programs::disk;
namespace iscsi = weft::programs::iscsi;
namespace srp = weft::programs::srp;
using weft::ErrorCode;

/// All connections of clients share the disk.
struct Export {
  iscsi::SessionOptions options;
  srp::PathOptions srp;
  std::string url;                // the first
  std::vector<std::string> urls;  // all: paths to the same unit
  std::unique_ptr<disk::DiskPath> path;
  std::unique_ptr<disk::Disk> disk;
};
Export the_export;

[[nodiscard]] int errno_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument:
      return EINVAL;
    case ErrorCode::PermissionDenied:
      return EPERM;
    case ErrorCode::OutOfMemory:
      return ENOSPC;
    case ErrorCode::NotSupported:
      return EOPNOTSUPP;
    case ErrorCode::Busy:
      return EBUSY;
    default:
      return EIO;
  }
}

int answer(const weft::Result<void>& done) {
  if (done) {
    return 0;
  }
  nbdkit_error("%s", done.error().reason.c_str());
  nbdkit_set_error(errno_of(done.error().code));
  return -1;
}

int refuse(const std::string& reason) {
  nbdkit_error("%s", reason.c_str());
  return -1;
}

struct Count {
  unsigned* value{};
  unsigned least{};
  unsigned most{};
};
/// The parameter of a session that is a small number; null: it is another.
[[nodiscard]] Count count_of(std::string_view name) {
  if (name == "connections") {
    return {.value = &the_export.options.connections, .least = 1, .most = 16};
  }
  if (name == "recovery-level") {
    return {.value = &the_export.options.recovery_level, .least = 0, .most = 2};
  }
  return {};
}

[[nodiscard]] bool read_number(std::string_view text, unsigned& number) {
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, number).ptr == end && !text.empty();
}

/// The parameter that is a number of seconds; null: it is another.
[[nodiscard]] unsigned* seconds_of(std::string_view name) {
  if (name == "fast-fail") {
    return &the_export.options.fast_fail_seconds;
  }
  if (name == "dev-loss") {
    return &the_export.srp.dev_loss_seconds;
  }
  return name == "timeout" ? &the_export.srp.timeout_seconds : nullptr;
}

struct Switch {
  bool* value{};
  const char* if_true{};
  const char* if_false{};
};
/// The parameter that is one of two words; null: it is another.
[[nodiscard]] Switch switch_of(std::string_view name) {
  if (name == "immediate-data") {
    return {.value = &the_export.srp.no_immediate_data, .if_true = "no", .if_false = "yes"};
  }
  if (name == "keep-channels") {
    return {.value = &the_export.srp.keeps_channels, .if_true = "yes", .if_false = "no"};
  }
  if (name == "digests") {
    return {.value = &the_export.options.digests, .if_true = "on", .if_false = "off"};
  }
  if (name == "protection") {
    return {.value = &the_export.options.protection.used, .if_true = "on", .if_false = "off"};
  }
  return {};
}

int configure(const char* key, const char* value) {
  const std::string_view name{key};
  const std::string_view text{value};
  if (name == "url") {
    the_export.urls.emplace_back(text);
    the_export.url = the_export.urls.front();
  } else if (name == "initiator") {
    the_export.options.initiator = text;
  } else if (name == "chap-file") {
    the_export.options.chap_file = text;
  } else if (name == "chap-algorithm") {
    the_export.options.chap_algorithm = text;
  } else if (name == "device") {
    the_export.srp.device = text;
  } else if (const Switch one = switch_of(name); one.value != nullptr) {
    if (text != one.if_true && text != one.if_false) {
      return refuse(std::string{name} + " is " + one.if_true + " or " + one.if_false);
    }
    *one.value = text == one.if_true;
  } else if (name == "hello") {
    const auto policy = iscsi::hello_policy_of(text);
    if (!policy) {
      return refuse("hello is never, agreed or unasked");
    }
    the_export.options.hello = *policy;
  } else if (name == "application-tag") {
    unsigned tag = 0;
    if (!read_number(text, tag) || tag > 0xFFFE) {
      return refuse("application-tag is a number up to 65534");
    }
    the_export.options.protection.application_tag = static_cast<std::uint16_t>(tag);
  } else if (unsigned* const seconds = seconds_of(name); seconds != nullptr) {
    if (!read_number(text, *seconds) || *seconds == 0) {
      return refuse(std::string{name} + " is a number of seconds");
    }
  } else if (const Count count = count_of(name); count.value != nullptr) {
    if (!read_number(text, *count.value) || *count.value < count.least ||
        *count.value > count.most) {
      return refuse(std::string{name} + " is a number from " + std::to_string(count.least) +
                    " to " + std::to_string(count.most));
    }
  } else {
    return refuse("unknown parameter '" + std::string{name} +
                  "': url, initiator, chap-file, chap-algorithm, device, fast-fail, connections, "
                  "recovery-level, digests, hello, protection, application-tag, dev-loss, timeout, "
                  "immediate-data, keep-channels");
  }
  return 0;
}

int configure_complete() {
  return the_export.url.empty() ? refuse("url=iscsi://HOST[:PORT]/IQN/LUN is missing") : 0;
}

int open_srp() {
  std::vector<srp::TargetUrl> targets;
  for (const std::string& text : the_export.urls) {
    auto url = srp::find_target(text);
    if (!url) {
      return refuse(url.error().reason);
    }
    targets.push_back(*std::move(url));
  }
  the_export.srp.initiator = the_export.options.initiator;
  the_export.srp.answers_status = true;
  the_export.srp.fast_fail_seconds = the_export.options.fast_fail_seconds;
  auto path = std::make_unique<srp::SessionPath>(
      std::move(targets), the_export.srp,
      [](const std::string& text) { nbdkit_debug("%s", text.c_str()); });
  if (const auto opened = path->open(); !opened) {
    return refuse(the_export.url + ": " + opened.error().reason);
  }
  the_export.path = std::move(path);
  return 0;
}

int open_iscsi() {
  if (the_export.urls.size() != 1) {
    return refuse("several paths to a unit are for SRP: give one url");
  }
  const auto url = iscsi::parse_target_url(the_export.url);
  if (!url) {
    return refuse(url.error().reason);
  }
  const auto options = iscsi::initiator_options(the_export.options, url->address, url->target);
  if (!options) {
    return refuse(options.error().reason);
  }
  iscsi::LinkKind links = url->scheme == "iser"
                              ? weft::programs::iser::iser_links(the_export.options.hello)
                              : iscsi::tcp_links();
  auto path = std::make_unique<iscsi::InitiatorPath>(
      *options, weft::scsi::Lun{url->lun},
      [](const std::string& text) { nbdkit_debug("%s", text.c_str()); }, std::move(links));
  if (const auto opened = path->open(); !opened) {
    return refuse(the_export.url + ": " + opened.error().reason);
  }
  the_export.path = std::move(path);
  return 0;
}

[[nodiscard]] bool is_iscsi(std::string_view url) {
  return url.starts_with("iscsi:") || url.starts_with("iser:");
}

// After the fork, since there are threads from here on.
int after_fork() {
  if (is_iscsi(the_export.url) ? open_iscsi() != 0 : open_srp() != 0) {
    return -1;
  }
  the_export.disk = std::make_unique<disk::Disk>(*the_export.path, the_export.options.protection);
  if (const auto opened = the_export.disk->open(); !opened) {
    return refuse(the_export.url + ": " + opened.error().reason);
  }
  return 0;
}

void clean_up() {
  the_export.disk.reset();
  the_export.path.reset();
}

void* open_export(int /*readonly*/) { return the_export.disk.get(); }

[[nodiscard]] disk::Disk& disk_of(void* handle) { return *static_cast<disk::Disk*>(handle); }

std::int64_t size_of(void* handle) {
  return static_cast<std::int64_t>(disk_of(handle).properties().bytes());
}

int block_size(void* handle, std::uint32_t* minimum, std::uint32_t* preferred,
               std::uint32_t* maximum) {
  constexpr std::uint32_t kPreferred = 4096;
  const std::uint32_t block = disk_of(handle).properties().block_bytes;
  *minimum = block;
  *preferred = block > kPreferred ? block : kPreferred;
  *maximum = 0xFFFF'FFFF;  // requests are cut here
  return 0;
}

int can_write(void* handle) { return disk_of(handle).properties().write_protected ? 0 : 1; }
int can_trim(void* handle) {
  const auto& properties = disk_of(handle).properties();
  return properties.has_unmap || properties.has_write_same ? 1 : 0;
}
int always(void* /*handle*/) { return 1; }
int can_fua(void* /*handle*/) { return NBDKIT_FUA_NATIVE; }

int read_octets(void* handle, void* buffer, std::uint32_t count, std::uint64_t offset,
                std::uint32_t /*flags*/) {
  return answer(disk_of(handle).read(offset, {static_cast<std::byte*>(buffer), count}));
}

int write_octets(void* handle, const void* buffer, std::uint32_t count, std::uint64_t offset,
                 std::uint32_t flags) {
  return answer(disk_of(handle).write(offset, {static_cast<const std::byte*>(buffer), count},
                                      (flags & NBDKIT_FLAG_FUA) != 0));
}

int flush_all(void* handle, std::uint32_t /*flags*/) { return answer(disk_of(handle).flush()); }

int trim_octets(void* handle, std::uint32_t count, std::uint64_t offset, std::uint32_t flags) {
  if (const int done = answer(disk_of(handle).trim(offset, count));
      done != 0 || (flags & NBDKIT_FLAG_FUA) == 0) {
    return done;
  }
  return answer(disk_of(handle).flush());
}

int zero_octets(void* handle, std::uint32_t count, std::uint64_t offset, std::uint32_t flags) {
  return answer(disk_of(handle).zero(offset, count, (flags & NBDKIT_FLAG_MAY_TRIM) != 0,
                                     (flags & NBDKIT_FLAG_FUA) != 0));
}

[[nodiscard]] nbdkit_plugin make_plugin() {
  weft::os::use_one_heap();  // the device may have to know it (programs/rdma)
  nbdkit_plugin made{};
  made.name = "weft";
  made.longname = "a logical unit of an iSCSI or SRP target";
  made.version = WEFT_VERSION;
  made.config = configure;
  made.config_complete = configure_complete;
  made.config_help =
      "url=iscsi://HOST[:PORT]/IQN/LUN  (required; or iser://, srp://HOST[:PORT]/TARGET/LUN,\n"
      "                                  which may be given for each path to the unit)\n"
      "initiator=IQN  chap-file=FILE  chap-algorithm=NAME  fast-fail=SECONDS\n"
      "connections=NUMBER  recovery-level=0, 1 or 2  digests=on  protection=off\n"
      "application-tag=NUMBER\n"
      "of srp: device=NAME  dev-loss=SECONDS  timeout=SECONDS  immediate-data=no";
  made.magic_config_key = "url";
  made.after_fork = after_fork;
  made.cleanup = clean_up;
  made.open = open_export;
  made.get_size = size_of;
  made.block_size = block_size;
  made.can_write = can_write;
  made.can_flush = always;
  made.can_fua = can_fua;
  made.can_trim = can_trim;
  made.can_zero = always;
  made.can_multi_conn = always;
  made.pread = read_octets;
  made.pwrite = write_octets;
  made.flush = flush_all;
  made.trim = trim_octets;
  made.zero = zero_octets;
  made.errno_is_preserved = 0;
  return made;
}

nbdkit_plugin plugin = make_plugin();

}  // namespace

NBDKIT_REGISTER_PLUGIN(plugin)
