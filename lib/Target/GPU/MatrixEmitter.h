//===- MatrixEmitter.h - Tiles of matrix multiplications by matrix instructions ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MATRIXEMITTER_H
#define INTARSIA_LIB_TARGET_GPU_MATRIXEMITTER_H

#include "lib/Target/GPU/FunctionEmitter.h"
#include "lib/Target/GPU/MatrixInstructions.h"

namespace intarsia::gpu {

/// Rows and columns of what a warp multiplies at a time, on every architecture.
inline constexpr int64_t fragmentRows = 16;
/// Bytes of a chunk, as tiles are copied and read.
inline constexpr int64_t chunkBytes = 16;

/// The tile of a product that a block computes, by warps with tiles of their own.
struct MatrixTiles {
  int64_t rows, columns;         ///< of the block
  int64_t warpRows, warpColumns; ///< of a warp
  int64_t chunks;                ///< the tile's depth: chunks of 16 bytes that are in shared memory at a time
  int64_t stages;                ///< tiles in shared memory at a time
  int64_t scaleBytes = 0;        ///< of a stage, behind its tiles: what elements are scaled by
  int64_t loadsAhead = 1; ///< tiles that are loaded before they are stored to shared memory, of those that are not
                          ///< copied: as many reads of memory overlap
  int32_t blocksOfMultiprocessor = 0; ///< that registers leave room for; 0 where ptxas chooses

  int64_t warps() const { return (rows / warpRows) * (columns / warpColumns); }
};

/// One factor.
struct Factor {
  mlir::Value rows;      ///< i64
  bool isRagged = false; ///< the last tile may have fewer rows
  /// Returns the number by which elements() and address() know a row, if that is not its own.
  std::function<mlir::Value(mlir::Value row)> pick;
  /// Returns `width` neighbouring elements along the depth, f32.
  std::function<Element(mlir::Value row, mlir::Value k, int64_t width)> elements;
  /// Where the elements lie in global memory, if it is as the instructions want them: a pointer to a row.
  std::function<mlir::Value(mlir::Value row)> address;
  /// Instead of both: loads what this thread has of the tile at `k`, and stores it to the stage at a pointer.
  std::function<llvm::SmallVector<mlir::Value>(mlir::Value k)> load;
  std::function<void(llvm::ArrayRef<mlir::Value> loaded, mlir::Value stage)> store;
};

/// Tiles along the depth: all, or some of those where blocks share the sums.
struct TileRange {
  mlir::Value begin, end; ///< null: from the first one, to the last one; else there is at least one
};

/// Returns `width` sums of a row from a column on.
using SumsFn = std::function<mlir::Value(mlir::Value column, int64_t width)>;

using StoreFn =
    llvm::function_ref<mlir::LogicalResult(mlir::Value row, mlir::Value column, int64_t width, const SumsFn &sums)>;

/// Shared memory of a warp for sums on their way to memory: so many rows and columns at a time.
struct SumsWindow {
  mlir::Value pointer;
  int64_t rows, columns;
};

/// Emits D = A * B^T: rows of A and of B follow the dimension that is summed over. Tiles of both come through shared
/// memory, several ahead of the one that is multiplied. A warp multiplies fragments: 16 rows, of which each lane holds
/// those elements that the architecture's instruction wants of it.
class MatrixEmitter : public LoopEmitter {
public:
  MatrixEmitter(FunctionEmitter &function, TensorEmitter &tensors, const MatrixInstruction &instruction)
      : LoopEmitter(function), architecture(function.architecture), function(function), memory(function),
        tensors(tensors), instruction(instruction) {}

  /// Emits the product of a tile of rows of `left` by one of `right`, over `depth` elements. Returns this warp's sums.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> multiply(const MatrixTiles &tiles, const Factor &left,
                                                           const Factor &right, mlir::Value firstRow,
                                                           mlir::Value firstColumn, mlir::Value depth,
                                                           TileRange range = {});
  /// Returns the bytes that a warp's window takes.
  static int64_t windowBytes(int64_t rows, int64_t columns);
  /// Calls store() for all elements of the block's tile whose row and column are below `rows` and `columns`, in vectors
  /// of `width` along the columns. It is emitted in loops: sums go through windows of shared memory; without one
  /// through the memory of the tiles, which are not needed any more.
  mlir::LogicalResult storeSums(const MatrixTiles &tiles, llvm::ArrayRef<mlir::Value> sums, mlir::Value firstRow,
                                mlir::Value firstColumn, mlir::Value rows, mlir::Value columns, StoreFn store,
                                std::optional<SumsWindow> window = std::nullopt);

  /// States what tiles are, and chooses what does not change where their elements lie. A block has so many bytes of
  /// shared memory beside its stages.
  void chooseTiles(KernelShape &shape, MatrixTiles &tiles, int64_t bytesBeside = 0);
  /// Returns bytes of shared memory that a block takes.
  int64_t sharedBytesOf(const MatrixTiles &tiles) const;
  /// Elements of a chunk of 16 bytes.
  int64_t chunkElements() const { return 16 * 8 / elementBits(); }
  /// Chunks of a row that one step of a warp multiplies.
  int64_t chunksOfStep() const {
    // Of a chunk, of two, or of four.
    bool isShort = instruction.family == MatrixFamily::MultiplyAdds;
    bool isLong = instruction.family == MatrixFamily::Mfma && instruction.element != MatrixElement::I8;
    return isLong ? 4 : isShort ? 1 : 2;
  }
  bool isWarpgroup() const { return instruction.family == MatrixFamily::Wgmma; }
  /// Returns the type of an element; of elements of 4 bits that of two.
  mlir::Type elementType();
  /// Returns where rows of `depth` elements of elementType() begin at `pointer`, if they can be copied as they lie.
  std::function<mlir::Value(mlir::Value row)> addressOfRows(mlir::Value pointer, int64_t depth);

  /// Emits the multiplication of the tiles of the stage in shared memory at a pointer. Kernels that scale products
  /// have one of their own.
  std::function<void(const MatrixTiles &tiles, mlir::Value stage, llvm::SmallVectorImpl<mlir::Value> &sums)>
      multiplyStage = [this](const MatrixTiles &tiles, mlir::Value stage, llvm::SmallVectorImpl<mlir::Value> &sums) {
        multiplyElements(tiles, stage, sums);
      };
  /// Returns the row, and the column, of the block's tile at which a fragment of this warp begins.
  mlir::Value rowOfFragment(const MatrixTiles &tiles, int64_t fragment);
  mlir::Value columnOfFragment(const MatrixTiles &tiles, int64_t fragment);
  llvm::SmallVector<mlir::Value> loadFragment(const MatrixTiles &tiles, mlir::Value tile, int64_t row, int64_t step,
                                              bool isRight);
  /// Returns where a chunk of a row lies among those of the row.
  mlir::Value swizzled(mlir::Value row, mlir::Value chunk, int64_t chunks);
  /// Multiplies the tiles in shared memory at `left` and `right` by instructions of four warps, which are still
  /// computing when the function goes on.
  void beginWarpgroupStage(const MatrixTiles &tiles, mlir::Value left, mlir::Value right,
                           llvm::SmallVectorImpl<mlir::Value> &sums);
  /// Calls an instruction of the family Mma for the first 8 rows of the right fragment and for the others: they are the
  /// columns of the product. `rest` appends further arguments, for each half.
  void multiplyHalves(llvm::StringRef name, llvm::ArrayRef<mlir::Value> left, llvm::ArrayRef<mlir::Value> right,
                      llvm::MutableArrayRef<mlir::Value> sums,
                      llvm::function_ref<void(int64_t half, llvm::SmallVectorImpl<mlir::Value> &)> rest = nullptr);
  mlir::Value zeroSums();
  mlir::Value callIntrinsic(llvm::StringRef name, mlir::Type result, mlir::ValueRange arguments);
  int64_t valuesOfTile() const; ///< that hold a lane's part of 16 x 16 sums

private:
  /// A tile of a factor that is being copied to shared memory.
  struct Copy;
  int64_t elementBits() const;
  /// Returns a pointer that is so many elements, a whole number of bytes, behind another.
  mlir::Value offsetElements(mlir::Value pointer, mlir::Value count);
  /// True if sums are values of their own, as NVIDIA's and those without instructions are; AMD's are a vector.
  bool hasScalarSums() const;
  Copy beginCopy(const MatrixTiles &tiles, const Factor &factor, int64_t rows, mlir::Value firstRow,
                 mlir::Value shared);
  /// True if tiles of a factor are copied to shared memory by threads that do not wait for it.
  bool isCopied(const Factor &factor) const { return factor.address && architecture.vendor == Vendor::Nvidia; }
  /// Copies without waiting, the tile at `k`.
  void copyAsync(const Copy &copy, mlir::Value k, mlir::Value stage, mlir::Value depth);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> loadTile(const Copy &copy, mlir::Value k, mlir::Value depth);
  /// Returns a chunk of a row, of which elements from `depth` on are zeros.
  Element loadChunk(const Factor &factor, mlir::Value row, mlir::Value first, mlir::Value depth);
  void storeTile(const Copy &copy, llvm::ArrayRef<mlir::Value> chunks, mlir::Value stage);
  void multiplyElements(const MatrixTiles &tiles, mlir::Value stage, llvm::SmallVectorImpl<mlir::Value> &sums);
  mlir::Value matrixDescriptor(const MatrixTiles &tiles, mlir::Value pointer);
  /// Returns those rows of a fragment that a lane multiplies for its sums.
  llvm::SmallVector<mlir::Value> loadRowsOfLane(const MatrixTiles &tiles, mlir::Value tile, int64_t row, int64_t step,
                                                bool isRight);
  void multiplyFragments(llvm::ArrayRef<mlir::Value> left, llvm::ArrayRef<mlir::Value> right,
                         llvm::MutableArrayRef<mlir::Value> sums);
  void storeFragment(llvm::ArrayRef<mlir::Value> sums, mlir::Value pointer, int64_t stride);

  const Architecture &architecture;
  FunctionEmitter &function;
  MemoryEmitter memory;
  TensorEmitter &tensors;
  const MatrixInstruction &instruction;
  mlir::Value shared; ///< memory of the tiles
};

} // namespace intarsia::gpu

#endif
