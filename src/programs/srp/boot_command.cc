#include "programs/srp/boot_command.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/bytes.h"
#include "os/unique_fd.h"
#include "programs/disk/disk.h"
#include "programs/iscsi/attach_command.h"
#include "programs/iscsi/libcrypto_chap.h"
#include "programs/iscsi/target_command.h"
#include "programs/srp/session_path.h"
#include "programs/srp/target_url.h"
#include "ulp/srp/root_path.h"

namespace weft::programs::srp {
namespace {

constexpr const char* kProgram = "weft-srp";
constexpr std::uint64_t kLoadBytes = 1 << 20;       // policy: boot sector and what follows it
constexpr std::uint64_t kMostLoadBytes = 64 << 20;  // policy
constexpr std::size_t kSectorBytes = 512;
constexpr std::array kSignature{std::byte{0x55}, std::byte{0xAA}};  // at a boot sector's end

[[nodiscard]] std::unexpected<Error> refuse(const char* call) {
  return fail(ErrorCode::Io, "{}: {}", call, std::strerror(errno));
}

/// Logs in as the session says, reads the unit's beginning, and logs out. The initiator that has
/// logged in and the port that it has used become the session's, so that the next stage is the same
/// one.
[[nodiscard]] Result<std::vector<std::byte>> load(weft::srp::BootSession& session,
                                                  const BootOptions& options) {
  const auto target = target_of(session);
  if (!target) {
    return std::unexpected(target.error());
  }
  SessionPath path{std::vector{*target}, PathOptions{.device = options.device},
                   [](const std::string&) {}};
  if (const auto opened = path.open(); !opened) {
    return std::unexpected(opened.error());
  }
  session.initiator_port_id = path.initiator();
  session.source_gid = path.source_gid();
  disk::Disk disk{path};
  if (const auto opened = disk.open(); !opened) {
    return std::unexpected(opened.error());
  }
  const std::uint64_t block = disk.properties().block_bytes;
  const std::uint64_t wanted = (options.load_bytes + block - 1) / block * block;
  std::vector<std::byte> image(std::min(wanted, disk.properties().bytes()));
  if (const auto read = disk.read(0, image); !read) {
    return std::unexpected(read.error());
  }
  return image;
}

[[nodiscard]] std::string sha256(ByteSpan octets) {
  std::string text;
  for (const std::byte octet :
       iscsi::LibcryptoChap{}.hash(weft::iscsi::ChapAlgorithm::Sha256, {&octets, 1})) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(octet));
  }
  return text;
}

[[nodiscard]] bool is_bootable(ByteSpan image) {
  return image.size() >= kSectorBytes &&
         std::ranges::equal(image.subspan(kSectorBytes - kSignature.size(), kSignature.size()),
                            kSignature);
}

[[nodiscard]] Result<void> write_table(const std::string& path, ByteSpan table) {
  std::ofstream file{path, std::ios::binary | std::ios::trunc};
  for (const std::byte octet : table) {
    file.put(static_cast<char>(octet));
  }
  file.close();
  return file ? Result<void>{} : fail(ErrorCode::Io, "'{}' cannot be written", path);
}

/// The table as a file without a name, which goes when nobody has it any more.
[[nodiscard]] Result<os::UniqueFd> nameless(ByteSpan table) {
  os::UniqueFd file{memfd_create("sbft", 0)};
  if (!file || write(file.get(), table.data(), table.size()) != std::ssize(table)) {
    return refuse("memfd_create");
  }
  return file;
}

/// Becomes QEMU, whose child serves the disk on a socket between both, so that it ends with QEMU,
/// however that ends, and leaves no file.
[[nodiscard]] Result<void> hand_over(const BootOptions& options, ByteSpan table) {
  iscsi::NbdkitCall call{.program = kProgram, .single = true};
  if (iscsi::check_nbdkit(call)) {
    return fail(ErrorCode::NotFound, "nothing is booted");
  }
  auto file = nameless(table);
  if (!file) {
    return std::unexpected(file.error());
  }
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) {
    return refuse("socketpair");
  }
  const std::string table_path = fmt::format("/proc/self/fd/{}", file->get());
  call.parameters = {"url=sbft:" + table_path};
  if (!options.device.empty()) {
    call.parameters.push_back("device=" + options.device);
  }
  const pid_t child = fork();
  if (child < 0) {
    return refuse("fork");
  }
  if (child == 0) {
    dup2(ends[1], STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    _exit(iscsi::become_nbdkit(call));
  }
  close(ends[1]);
  std::vector<std::string> words = options.command;
  words.insert(
      words.end(),
      {"-blockdev", fmt::format("driver=nbd,node-name=san,server.type=fd,server.str={}", ends[0]),
       "-device", "virtio-blk-pci,drive=san,bootindex=0", "-acpitable", "file=" + table_path});
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  static_cast<void>(file->release());  // QEMU's from here on
  execvp(arguments.front(), arguments.data());
  return fail(ErrorCode::NotFound, "{} cannot be run: {}", words.front(), std::strerror(errno));
}

}  // namespace

CLI::App& add_boot_command(CLI::App& app, BootOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "san-boot", "Boots from a logical unit: loads it by a root path, and hands its session over");
  command
      .add_option("root-path", options.root_path,
                  "ib_srp:SGID:INITIATOR_EXT:INITIATOR_GUID:DGID:PKEY:SERVICE_ID:LUN:ID_EXT:"
                  "IOC_GUID, hexadecimal; fields may be empty")
      ->required();
  command
      .add_option("--load", options.load_bytes, "How many octets of the unit are loaded and hashed")
      ->default_val(kLoadBytes)
      ->check(CLI::Range(std::uint64_t{kSectorBytes}, kMostLoadBytes));
  command.add_option("--table", options.table,
                     "Writes the boot firmware table (sBFT) to this file: weft srp attach "
                     "sbft:FILE goes on by it");
  command.add_option("--device", options.device, "The RDMA device; default: the first");
  command.add_option("qemu", options.command,
                     "After --: QEMU and its options, which boots from the unit");
  return command;
}

int run_boot(const BootOptions& options) {
  auto session = weft::srp::parse_root_path(options.root_path);
  if (!session) {
    fmt::print(stderr, "{}: {}\n", kProgram, session.error().reason);
    return iscsi::kWrongUsage;
  }
  const auto failed = [](const Error& error) {
    fmt::print(stderr, "{}: {}\n", kProgram, error.reason);
    return iscsi::kFailed;
  };
  const auto image = load(*session, options);
  if (!image) {
    return failed(image.error());
  }
  fmt::print("loaded {} octets, sha256 {}\n", image->size(), sha256(*image));
  fmt::print("session {}\n", weft::srp::to_root_path(*session));
  std::fflush(stdout);
  const std::vector<std::byte> table = weft::srp::to_boot_table(*session);
  if (!options.table.empty()) {
    if (const auto written = write_table(options.table, table); !written) {
      return failed(written.error());
    }
  }
  if (options.command.empty()) {
    return 0;
  }
  if (!is_bootable(*image)) {
    return failed(
        {.code = ErrorCode::InvalidArgument,
         .reason = "the unit has no boot sector: its first 512 octets do not end in 55 aa"});
  }
  const auto handed = hand_over(options, table);
  return failed(handed.error());
}

}  // namespace weft::programs::srp
