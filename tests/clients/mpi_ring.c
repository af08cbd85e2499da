// Four or more ranks pass buffers around a ring and sum them up, and check every word that arrives.
//
// One line of rank 0 says "ring and all-reduce of N ranks: correct"; a wrong word ends the program
// with status 1.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  kSmallest = 1,
  kLargest = 1 << 18,
  kRounds = 3
};  // words of 8 octets: eager and rendezvous protocols

static int64_t word(int rank, int round, int index) {
  return (int64_t)rank * 1000003 + (int64_t)round * 10007 + index;
}

// Sends to the right, receives from the left; after as many rounds as there are ranks, every buffer
// is home.
static long ring(int rank, int ranks, int64_t* out, int64_t* in, int count) {
  long wrong = 0;
  const int right = (rank + 1) % ranks;
  const int left = (rank + ranks - 1) % ranks;
  for (int i = 0; i < count; ++i) {
    out[i] = word(rank, 0, i);
  }
  for (int step = 1; step <= ranks; ++step) {
    MPI_Sendrecv(out, count, MPI_INT64_T, right, step, in, count, MPI_INT64_T, left, step,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const int origin = (rank + ranks - step) % ranks;
    for (int i = 0; i < count; ++i) {
      wrong += in[i] != word(origin, 0, i);
      out[i] = in[i];
    }
  }
  return wrong;
}

static long all_reduce(int rank, int ranks, int round, int64_t* out, int64_t* in, int count) {
  long wrong = 0;
  for (int i = 0; i < count; ++i) {
    out[i] = word(rank, round, i);
  }
  MPI_Allreduce(out, in, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) {
    int64_t sum = 0;
    for (int peer = 0; peer < ranks; ++peer) {
      sum += word(peer, round, i);
    }
    wrong += in[i] != sum;
  }
  return wrong;
}

// Every rank writes its number into every other's window.
static long one_sided(int rank, int ranks) {
  int64_t* base = NULL;
  MPI_Win window;
  long wrong = 0;
  MPI_Win_allocate((MPI_Aint)sizeof(int64_t) * (ranks + 1), sizeof(int64_t), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &base, &window);
  for (int i = 0; i <= ranks; ++i) {
    base[i] = -1;
  }
  base[ranks] = 0;
  MPI_Win_fence(0, window);
  const int64_t number = 100 + rank;
  for (int peer = 0; peer < ranks; ++peer) {
    MPI_Put(&number, 1, MPI_INT64_T, peer, rank, 1, MPI_INT64_T, window);
    MPI_Accumulate(&number, 1, MPI_INT64_T, peer, ranks, 1, MPI_INT64_T, MPI_SUM, window);
  }
  MPI_Win_fence(0, window);
  int64_t sum = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    wrong += base[peer] != 100 + peer;
    sum += 100 + peer;
  }
  wrong += base[ranks] != sum;
  MPI_Win_free(&window);
  return wrong;
}

int main(int argc, char** argv) {
  int rank = 0;
  int ranks = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  printf("rank %d of %d is on %s\n", rank, ranks, getenv("WEFT_HOST"));

  int64_t* const out = malloc(sizeof(int64_t) * kLargest);
  int64_t* const in = malloc(sizeof(int64_t) * kLargest);
  long wrong = 0;
  for (int count = kSmallest; count <= kLargest; count *= 8) {
    wrong += ring(rank, ranks, out, in, count);
    for (int round = 0; round < kRounds; ++round) {
      wrong += all_reduce(rank, ranks, round, out, in, count);
    }
  }
  wrong += one_sided(rank, ranks);
  free(out);
  free(in);

  long total = 0;
  MPI_Allreduce(&wrong, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("ring, all-reduce and windows of %d ranks: %s\n", ranks,
           total == 0 ? "correct" : "WRONG");
  }
  MPI_Finalize();
  return total == 0 ? 0 : 1;
}
