#pragma once

// /sys/class/weft of a host: the files by which operators make virtual functions
// (host_view/function_files.h), as a FUSE file system, since a file of a tmpfs would swallow what
// is written to it. The command that makes the host's namespaces mounts it there; the daemon
// answers its requests from its loop, each at once. When the daemon ends, however it does, the
// kernel fails all requests (ENOTCONN); the mount goes with the host's mount namespace.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host_view/function_files.h"
#include "os/unique_fd.h"

struct fuse_session;

namespace weft::daemon {

/// Whether the descriptor is an open /dev/fuse, which only a kernel answers.
[[nodiscard]] bool is_fuse_device(const os::UniqueFd& fd);

/// Used on the loop's thread only.
class FunctionFileSystem {
 public:
  /// What becomes of a text that is written to a file: 0, or the writer's errno. It may call
  /// show().
  using Write = std::function<int(const std::string& path, std::string_view text)>;

  /// `device` is an open /dev/fuse whose file system is mounted. InvalidArgument: it is not.
  [[nodiscard]] static Result<std::unique_ptr<FunctionFileSystem>> create(asio::io_context& loop,
                                                                          os::UniqueFd device,
                                                                          Write write);
  ~FunctionFileSystem();
  FunctionFileSystem(const FunctionFileSystem&) = delete;
  FunctionFileSystem& operator=(const FunctionFileSystem&) = delete;

  /// What is there from now on.
  void show(const host_view::FunctionTree& tree);

 private:
  struct Requests;  // what the kernel asks
  struct Node {
    bool is_folder{};
    bool is_writable{};
    std::string content{};
  };

  FunctionFileSystem(asio::io_context& loop, Write write);
  void wait();
  void serve();
  void number(const std::string& path);
  [[nodiscard]] const std::string& path_of(std::uint64_t inode) const;
  [[nodiscard]] const Node* find(const std::string& path) const;

  Write write_;
  fuse_session* session_{};
  asio::posix::stream_descriptor requests_;  // of the session's descriptor, which that owns
  std::map<std::string, Node> nodes_;        // by path; the root's is empty
  std::vector<std::string> paths_;           // by inode number, from 1; a path keeps its number
  std::map<std::string, std::uint64_t> inodes_;
};

}  // namespace weft::daemon
