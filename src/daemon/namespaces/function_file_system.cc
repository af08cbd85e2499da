#include "daemon/namespaces/function_file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#define FUSE_USE_VERSION 34
#include <fuse_lowlevel.h>

namespace weft::daemon {

using asio::posix::stream_descriptor;

namespace {

/// Of a file of sysfs, whatever it holds; no write of more means anything.
constexpr std::size_t kFileBytes = 4096;
/// Policy: then others have their turn.
constexpr int kRequestsInTurn = 64;

/// An inode that has no path; an inode's path is never this.
const std::string kNowhere{"/"};

[[nodiscard]] std::string below(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string{name} : fmt::format("{}/{}", folder, name);
}

/// The last word of a path if it is in the folder itself; empty: it is not.
[[nodiscard]] std::string_view name_in(std::string_view folder, std::string_view path) {
  if (!folder.empty()) {
    if (!path.starts_with(folder) || path.size() <= folder.size() || path[folder.size()] != '/') {
      return {};
    }
    path.remove_prefix(folder.size() + 1);
  }
  return path.contains('/') ? std::string_view{} : path;
}

}  // namespace

bool is_fuse_device(const os::UniqueFd& fd) {
  constexpr unsigned kMiscMajor = 10;
  constexpr unsigned kFuseMinor = 229;  // Linux, Documentation/admin-guide/devices.txt
  struct stat status{};
  return fstat(fd.get(), &status) == 0 && S_ISCHR(status.st_mode) &&
         status.st_rdev == makedev(kMiscMajor, kFuseMinor);
}

struct FunctionFileSystem::Requests {
  [[nodiscard]] static FunctionFileSystem& self(fuse_req_t request) {
    return *static_cast<FunctionFileSystem*>(fuse_req_userdata(request));
  }

  [[nodiscard]] static struct stat attributes(std::uint64_t inode, const Node& node) {
    constexpr mode_t kFolderMode = S_IFDIR | 0555;
    constexpr mode_t kReadMode = S_IFREG | 0444;
    struct stat attributes{};
    attributes.st_ino = inode;
    attributes.st_mode = node.is_folder ? kFolderMode : kReadMode;
    attributes.st_mode |= node.is_writable ? mode_t{S_IWUSR} : mode_t{};
    attributes.st_nlink = node.is_folder ? 2 : 1;
    attributes.st_size = node.is_folder ? 0 : static_cast<off_t>(kFileBytes);
    return attributes;
  }

  // Nothing is kept by the kernel: what goes is gone at once.
  static void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    FunctionFileSystem& files = self(request);
    const std::string path = below(files.path_of(parent), name);
    const Node* const node = files.find(path);
    if (node == nullptr) {
      fuse_reply_err(request, ENOENT);
      return;
    }
    fuse_entry_param entry{};
    entry.ino = files.inodes_.at(path);
    entry.attr = attributes(entry.ino, *node);
    fuse_reply_entry(request, &entry);
  }

  static void get_attributes(fuse_req_t request, fuse_ino_t inode, fuse_file_info* /*file*/) {
    const FunctionFileSystem& files = self(request);
    const Node* const node = files.find(files.path_of(inode));
    if (node == nullptr) {
      fuse_reply_err(request, ENOENT);
      return;
    }
    const struct stat found = attributes(inode, *node);
    fuse_reply_attr(request, &found, 0);
  }

  /// `echo 4 >` makes the file empty first, which changes nothing, as in sysfs.
  static void set_attributes(fuse_req_t request, fuse_ino_t inode, struct stat* /*wanted*/,
                             int which, fuse_file_info* file) {
    if ((which & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
      fuse_reply_err(request, EPERM);
      return;
    }
    get_attributes(request, inode, file);
  }

  static void open_file(fuse_req_t request, fuse_ino_t inode, fuse_file_info* file) {
    const FunctionFileSystem& files = self(request);
    const Node* const node = files.find(files.path_of(inode));
    if (node == nullptr || node->is_folder) {
      fuse_reply_err(request, node == nullptr ? ENOENT : EISDIR);
      return;
    }
    if ((file->flags & O_ACCMODE) != O_RDONLY && !node->is_writable) {
      fuse_reply_err(request, EACCES);  // even to root, as sysfs
      return;
    }
    file->direct_io = 1;  // each read and each write() is a request
    fuse_reply_open(request, file);
  }

  static void read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
                   fuse_file_info* /*file*/) {
    const FunctionFileSystem& files = self(request);
    const Node* const node = files.find(files.path_of(inode));
    if (node == nullptr) {
      fuse_reply_err(request, ENODEV);
      return;
    }
    const std::string_view content = node->content;
    const std::size_t from = std::min(static_cast<std::size_t>(offset), content.size());
    const std::string_view part = content.substr(from, size);
    fuse_reply_buf(request, part.data(), part.size());
  }

  static void write(fuse_req_t request, fuse_ino_t inode, const char* text, std::size_t size,
                    off_t /*offset*/, fuse_file_info* /*file*/) {
    const FunctionFileSystem& files = self(request);
    const std::string path = files.path_of(inode);
    if (files.find(path) == nullptr) {
      fuse_reply_err(request, ENODEV);
      return;
    }
    const int error = size > kFileBytes ? EINVAL : files.write_(path, {text, size});
    if (error != 0) {
      fuse_reply_err(request, error);
    } else {
      fuse_reply_write(request, size);
    }
  }

  static void read_folder(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
                          fuse_file_info* /*file*/) {
    const FunctionFileSystem& files = self(request);
    const std::string& folder = files.path_of(inode);
    if (files.find(folder) == nullptr) {
      fuse_reply_err(request, ENOENT);
      return;
    }
    std::vector<char> answer(size);
    std::size_t used = 0;
    off_t position = 0;
    // False: there is no room for more.
    const auto add = [&](std::string_view name, std::uint64_t number, const Node& node) {
      if (position++ < offset) {
        return true;
      }
      const struct stat found = attributes(number, node);
      const std::size_t needs = fuse_add_direntry(request, answer.data() + used, size - used,
                                                  std::string{name}.c_str(), &found, position);
      const bool fits = needs <= size - used;
      used += fits ? needs : 0;
      return fits;
    };
    const Node itself{.is_folder = true};
    bool has_room = add(".", inode, itself) && add("..", FUSE_ROOT_ID, itself);
    for (auto at = files.nodes_.begin(); has_room && at != files.nodes_.end(); ++at) {
      const std::string_view name = name_in(folder, at->first);
      if (!name.empty()) {
        has_room = add(name, files.inodes_.at(at->first), at->second);
      }
    }
    fuse_reply_buf(request, answer.data(), used);
  }

  // As sysfs refuses who makes and removes what is not theirs.
  static void create(fuse_req_t request, fuse_ino_t /*parent*/, const char* /*name*/,
                     mode_t /*mode*/, fuse_file_info* /*file*/) {
    fuse_reply_err(request, EACCES);
  }
  static void make_folder(fuse_req_t request, fuse_ino_t /*parent*/, const char* /*name*/,
                          mode_t /*mode*/) {
    fuse_reply_err(request, EPERM);
  }
  static void remove(fuse_req_t request, fuse_ino_t /*parent*/, const char* /*name*/) {
    fuse_reply_err(request, EPERM);
  }

  [[nodiscard]] static fuse_lowlevel_ops operations() {
    fuse_lowlevel_ops operations{};
    operations.lookup = lookup;
    operations.getattr = get_attributes;
    operations.setattr = set_attributes;
    operations.open = open_file;
    operations.read = read;
    operations.write = write;
    operations.readdir = read_folder;
    operations.create = create;
    operations.mkdir = make_folder;
    operations.unlink = remove;
    operations.rmdir = remove;
    return operations;
  }
};

Result<std::unique_ptr<FunctionFileSystem>> FunctionFileSystem::create(asio::io_context& loop,
                                                                       os::UniqueFd device,
                                                                       Write write) {
  if (!is_fuse_device(device)) {
    return fail(ErrorCode::InvalidArgument, "this is not an open /dev/fuse");
  }
  std::unique_ptr<FunctionFileSystem> files{
      new FunctionFileSystem{loop, std::move(write)}
  };
  std::string name{"weftd"};
  std::array<char*, 1> words{name.data()};
  fuse_args arguments{.argc = 1, .argv = words.data(), .allocated = 0};
  const fuse_lowlevel_ops operations = Requests::operations();
  files->session_ = fuse_session_new(&arguments, &operations, sizeof operations, files.get());
  fuse_opt_free_args(&arguments);
  // It is mounted already; this is how libfuse is given the descriptor (fuse(8), /dev/fd/N).
  if (files->session_ == nullptr ||
      fuse_session_mount(files->session_, fmt::format("/dev/fd/{}", device.get()).c_str()) != 0) {
    return fail(ErrorCode::InvalidArgument, "libfuse does not take the descriptor of /dev/fuse");
  }
  files->requests_.assign(device.release());
  files->wait();
  return files;
}

FunctionFileSystem::FunctionFileSystem(asio::io_context& loop, Write write)
    : write_(std::move(write)), requests_(loop) {
  show({});
}

FunctionFileSystem::~FunctionFileSystem() {
  if (requests_.is_open()) {
    static_cast<void>(requests_.release());  // closed with the session
  }
  if (session_ != nullptr) {
    fuse_session_destroy(session_);
  }
}

void FunctionFileSystem::wait() {
  requests_.async_wait(stream_descriptor::wait_read, [this](const std::error_code& error) {
    if (!error) {
      serve();
    }
  });
}

/// The requests that are there, within a bound. After the mount has gone there are no others.
void FunctionFileSystem::serve() {
  fuse_buf buffer{};  // its memory, 1 MiB at the first request, is there while requests are
  int received = 0;
  for (int i = 0; i < kRequestsInTurn; ++i) {
    received = fuse_session_receive_buf(session_, &buffer);
    if (received > 0) {
      fuse_session_process_buf(session_, &buffer);
    } else if (received != -EINTR) {
      break;
    }
  }
  std::free(buffer.mem);
  if (received > 0 || received == -EAGAIN || received == -EINTR) {
    wait();
  }
}

void FunctionFileSystem::show(const host_view::FunctionTree& tree) {
  nodes_.clear();
  nodes_.emplace("", Node{.is_folder = true});
  for (const std::string& folder : tree.folders) {
    nodes_.emplace(folder, Node{.is_folder = true});
  }
  for (const host_view::FunctionFile& file : tree.files) {
    nodes_.emplace(file.path, Node{.is_writable = file.is_writable, .content = file.content});
  }
  for (const auto& [path, node] : nodes_) {
    number(path);
  }
}

/// Paths are few: those of the most functions that there ever were.
void FunctionFileSystem::number(const std::string& path) {
  if (inodes_.emplace(path, paths_.size() + 1).second) {
    paths_.push_back(path);
  }
}

const std::string& FunctionFileSystem::path_of(std::uint64_t inode) const {
  return inode >= 1 && inode <= paths_.size() ? paths_[inode - 1] : kNowhere;
}

const FunctionFileSystem::Node* FunctionFileSystem::find(const std::string& path) const {
  const auto found = nodes_.find(path);
  return found == nodes_.end() ? nullptr : &found->second;
}

}  // namespace weft::daemon
